"""What the long benchmarks share: results on disk that a stopped run goes on from."""

from pathlib import Path

from gibbsdiff.evidence.calibration import store


class Records:
    """JSON lines of one configuration, each with a key; every new one is written at once."""

    def __init__(self, path: str | Path, configuration: dict) -> None:
        self.path, self.configuration = Path(path), configuration
        self.path.parent.mkdir(parents=True, exist_ok=True)
        there = store.read(self.path, configuration) if self.path.exists() else []
        self.by_key = {tuple(record["key"]): record for record in there}

    def __contains__(self, key: tuple) -> bool:
        return key in self.by_key

    def __getitem__(self, key: tuple) -> dict:
        return self.by_key[key]

    def add(self, key: tuple, **values) -> dict:
        self.by_key[key] = {"key": list(key), **values}
        store.write(self.path, self.configuration, list(self.by_key.values()))
        return self.by_key[key]
