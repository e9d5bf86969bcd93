"""Every committed seed of the fuzzer, and every input that once made trouble, on both sets of kernels."""

from __future__ import annotations

import random

import pytest

from lancecy import kernels
from tests.fuzz.calls import parameters, read_call, write_call
from tests.fuzz.seeds import CRASHES, SEEDS, crashes_of, seeds_of
from tests.fuzz.targets import KERNELS, PARSERS, TARGETS, twin_of


def test_every_target_has_seeds_and_every_file_a_target() -> None:
    assert {path.name for path in SEEDS.iterdir()} == set(TARGETS)
    assert [name for name in TARGETS if not seeds_of(name)] == []
    assert [
        p.name for p in CRASHES.glob("*") if p.name.rpartition("-")[0].partition("-")[0] not in TARGETS
    ] == []


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_seeds_and_old_crashes_are_digested(target: str) -> None:
    for data in (*seeds_of(target), *crashes_of(target)):
        TARGETS[target](data)


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_damaged_seeds_are_digested(target: str) -> None:
    """A few hundred blind mutations of each: cheap, and not the same as those of the fuzzer."""
    rng = random.Random(f"lancecy {target}")
    seeds = seeds_of(target)
    # Those of an index are read by several scans.
    for _ in range(30 if target.startswith("index_") else 150):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        if rng.random() < 0.2:
            del data[rng.randrange(len(data) + 1) :]
        TARGETS[target](bytes(data))


@pytest.mark.parametrize("name", KERNELS)
def test_calls_survive_being_written_and_read(name: str) -> None:
    names = parameters(twin_of(name))
    for seed in seeds_of(name):
        assert write_call(names, read_call(names, seed)) == seed


def test_seeds_reach_the_kernels_and_not_only_their_argument_checks() -> None:
    reached = set()
    for name in KERNELS:
        names = parameters(twin_of(name))
        for seed in seeds_of(name):
            arguments = read_call(names, seed)
            try:
                getattr(kernels, name)(*arguments)
            except Exception:
                continue
            reached.add(name)
    assert reached == set(KERNELS)
    assert len(PARSERS) > 15
