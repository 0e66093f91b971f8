"""The paper's tables and figures on photographs, beside what a user would pick instead.

gibbsdiff benchmark images --data DIR --out OUT
"""
