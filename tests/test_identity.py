"""Digests: equal for equal content, different for different content, none for the unknown."""

from dataclasses import dataclass
from itertools import combinations

import torch

from gibbsdiff.identity import digest_of


@dataclass(frozen=True)
class Point:
    x: float
    y: torch.Tensor


@dataclass(frozen=True)
class Place:
    x: float
    y: torch.Tensor


A = torch.arange(6.0)
DIFFERENT = [
    ("ab", "c"),
    ("a", "bc"),
    (("ab", "c"),),
    (None,),
    ("None",),
    (1,),
    ("1",),
    (True,),
    (1.5,),
    (A,),
    (A.reshape(2, 3),),
    (A.flip(0),),
    (A.tolist(),),
    ({"a": A},),
    ({"b": A},),
    (Point(1.0, A),),
    (Point(1.0, A + 1),),
    (Place(1.0, A),),
    (),
]


def test_no_two_different_things_are_alike():
    for one, other in combinations(DIFFERENT, 2):
        assert digest_of(*one) != digest_of(*other), (one, other)


def test_equal_content_is_alike_whatever_holds_it():
    assert digest_of(A) == digest_of(A.double()) == digest_of(A.clone().requires_grad_())
    assert digest_of(A.reshape(2, 3).T) == digest_of(A.reshape(2, 3).T.contiguous())
    assert digest_of(2) == digest_of(2.0)
    assert digest_of(Point(1, A)) == digest_of(Point(1.0, A.double()))
    # It may stand in files: it must not change from one version to the next.
    assert digest_of("a", 1).startswith("38ca03a74501")


def test_what_has_no_identity_has_no_digest():
    assert digest_of("a", print) is None
    assert digest_of({"f": [lambda: 1]}) is None
