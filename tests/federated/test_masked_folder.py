"""Sites under masks in a folder: kills, a site that leaves, and requests that the program would not make."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rindices.federated import kinds, secure
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.folder import FolderTransport, MessageFile, SharedFolder, make_run_name
from rindices.federated.masks import SiteKey, compute_fingerprint
from rindices.federated.messages import Answer, ExchangeError, RefusedError, Request, WaitingError
from rindices.federated.rounds import InMemoryTransport
from rindices.federated.site import Site
from rindices.federated.site_service import SiteService
from rindices.study.config import ModelConfig
from tests.federated.sites import simulate_people, split_cohort

SETTINGS = FederatedSettings(ModelConfig(method="mean-difference", members=2), masked=True)
NAMES = ("site-0", "site-1", "site-2")
RUN = make_run_name({})


class KilledError(BaseException):
    """Raised where a process is killed."""


def list_prints(private: Path) -> dict[str, str]:
    """Return the fingerprints of all sites, as their people tell each other by telephone."""
    for name in NAMES:
        (private / name).mkdir(parents=True, exist_ok=True)
    return {name: compute_fingerprint(name, SiteKey.open(private / name).public) for name in NAMES}


def make_service(name: str, root: Path, left: Mapping[str, int] | None = None) -> SiteService:
    """Return a site that was started (again) after it accepted the others."""
    prints = list_prints(root / "private")
    key = SiteKey.open(root / "private" / name, [each for other, each in prints.items() if other != name], left)
    folder = root / "private" / name
    site = Site(name, split_cohort(simulate_people(), 3)[name], ledger=folder / "ledger.json", key=key)
    return SiteService(site, root / "exchange", folder, poll=0.01)


def start(services: Sequence[SiteService], patience: float = 20.0) -> list[threading.Thread]:
    threads = [threading.Thread(target=service.serve, args=(patience,), daemon=True) for service in services]
    for thread in threads:
        thread.start()
    return threads


def make_centre(root: Path, settings: FederatedSettings = SETTINGS, patience: float = 20.0) -> FolderTransport:
    centre = FolderTransport(root / "exchange", RUN, NAMES, {}, patience, 0.01, study=settings.to_dict())
    centre.begin()
    return centre


def run_centre(root: Path, settings: FederatedSettings = SETTINGS, patience: float = 20.0) -> FederatedResult:
    centre = make_centre(root, settings, patience)
    result = run_federated_study(centre, settings)
    centre.finish()
    return result


def get_pooled() -> np.ndarray:
    """Return the patterns of all people in one site."""
    sites = InMemoryTransport([Site("all", simulate_people(), 0)])
    model = run_federated_study(sites, replace(SETTINGS, masked=False)).model
    assert model is not None
    return model.patterns


def test_a_killed_site_goes_on_and_the_result_is_that_of_pooled_people(tmp_path: Path) -> None:
    """One site is killed in each round, after it computed its answer and before it is there; then it starts again."""
    services = [make_service(name, tmp_path) for name in NAMES]
    threads = start(services[:2])

    def restart() -> None:
        for number in range(1, 10):

            def kill(text: str, number: int = number) -> None:
                if text.startswith(f"round {number},"):
                    raise KilledError

            service = make_service(NAMES[2], tmp_path)
            service.on_answer = kill
            try:
                service.serve(20.0)
                return
            except KilledError:
                continue

    threads.append(threading.Thread(target=restart, daemon=True))
    threads[-1].start()
    result = run_centre(tmp_path)
    for thread in threads:
        thread.join(20.0)
        assert not thread.is_alive()
    assert result.model is not None
    np.testing.assert_allclose(result.model.patterns, get_pooled(), rtol=0, atol=1e-9)
    log = (tmp_path / "private" / NAMES[2] / "log.tsv").read_text().splitlines()[1:]
    digests = {line.split("\t")[2]: set() for line in log}
    for line in log:
        digests[line.split("\t")[2]].add(line.split("\t")[-1])
    assert len(log) == 2 * len(digests)  # each round was computed twice
    assert all(len(each) == 1 for each in digests.values())  # and had the same sums under the same masks


@pytest.mark.slow
def test_the_study_goes_on_without_a_site_that_left(tmp_path: Path) -> None:
    """The last site answers three rounds; nothing that was answered is answered again for fewer sites."""
    leaving = make_service(NAMES[2], tmp_path)

    def leave(text: str) -> None:
        if text.startswith("round 4,"):
            raise KilledError

    leaving.on_answer = leave
    threads = start([make_service(name, tmp_path) for name in NAMES[:2]], 8.0)
    threading.Thread(target=pytest.raises, args=(KilledError, leaving.serve), daemon=True).start()
    with pytest.raises(WaitingError, match=r"no answer of site-2 to round 4 .*--left site-2:4"):
        run_centre(tmp_path, patience=6.0)
    for thread in threads:
        thread.join(20.0)
    answers = {path: path.read_bytes() for path in (tmp_path / "exchange" / "answers").rglob("000[123].*")}
    settings = replace(SETTINGS, left={"site-2": 4})
    lines: list[str] = []
    waiting = make_service(NAMES[0], tmp_path)
    waiting.on_answer = lines.append
    start([waiting], 3.0)  # its people have not agreed yet
    with pytest.raises(WaitingError, match="site-0"):
        run_centre(tmp_path, settings, patience=4.0)
    assert any("--left SITE:ROUND" in line for line in lines)
    start([make_service(name, tmp_path, {"site-2": 4}) for name in NAMES[:2]])
    result = run_centre(tmp_path, settings)
    assert result.model is not None
    assert {path: path.read_bytes() for path in answers} == answers
    assert not (tmp_path / "exchange" / "answers" / RUN / "site-2" / "0004.json").exists()


@pytest.mark.slow
def test_a_site_that_leaves_after_the_curves_or_between_them(tmp_path: Path) -> None:
    """Its patients are in the moments: curves need it, and agreement and distributions do not."""

    class Leaving(InMemoryTransport):
        def ask(self, request: Request) -> dict[str, Answer]:
            names = secure.list_sites(request) if secure.is_masked(request) else NAMES
            return InMemoryTransport([site for site in self.sites if site.name in names]).ask(request)

    def run(left: dict[str, int]) -> FederatedResult:
        prints, cohorts = list_prints(tmp_path), split_cohort(simulate_people(), 3)
        keys = {
            name: SiteKey.open(tmp_path / name, [p for n, p in prints.items() if n != name], left) for name in NAMES
        }
        sites = [Site(name, cohorts[name], key=keys[name]) for name in NAMES]
        settings = FederatedSettings(ModelConfig(patterns=(1,), members=2), masked=True, left=left)
        return run_federated_study(Leaving(sites), settings)

    everyone = run({})
    rounds = [record.kind for record in everyone.rounds]
    without = run({"site-2": rounds.index(kinds.AGREEMENT) + 1})
    assert everyone.model is not None
    assert without.model is not None
    np.testing.assert_array_equal(everyone.model.patterns, without.model.patterns)
    with pytest.raises(ExchangeError, match=r"site-2 left after its patients were counted in round 6"):
        run({"site-2": rounds.index(kinds.CURVES) + 3})


# what a dishonest centre can try, each against three real sites

Change = Callable[[Request], Request]


def alter(
    root: Path, kind: str, change: Change, reasons: Sequence[str], settings: FederatedSettings = SETTINGS
) -> bool:
    """Run an honest study until requests of a kind are altered; return whether a site gives a reason to refuse them."""

    class Dishonest(FolderTransport):
        def ask(self, request: Request) -> dict[str, Answer]:
            return super().ask(change(request) if request.kind == kind else request)

    lines: list[str] = []
    services = [make_service(name, root) for name in NAMES]
    for service in services:
        service.on_answer = lines.append
    start(services, 30.0)
    centre = Dishonest(root / "exchange", RUN, NAMES, {}, 30.0, 0.01, study=settings.to_dict())
    centre.begin()

    def run() -> None:
        with suppress(RefusedError, WaitingError, ExchangeError):
            run_federated_study(centre, settings)

    threading.Thread(target=run, daemon=True).start()
    end, is_refused = time.monotonic() + 30.0, False
    while not is_refused and time.monotonic() < end:
        is_refused = any(reason in line for reason in reasons for line in tuple(lines))
        time.sleep(0.05)
    time.sleep(0.5)
    for service in services:
        service._end = 0.0  # leave
    return is_refused


def scale_array(name: str, factor: float) -> Change:
    return lambda request: replace(request, arrays={**request.arrays, name: request.arrays[name] * factor})


def set_setting(**values: Any) -> Change:
    return lambda request: replace(request, settings={**request.settings, **values})


def change_sites(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    return lambda request: set_setting(sites=change(json.loads(json.dumps(request.settings["sites"]))))(request)


STRANGER = {"key": "11" * 32, "controls": 50, "patients": 50}
ATTACKS: dict[str, tuple[str, Change, str]] = {
    "another preparation": (kinds.MOMENTS, scale_array("0/standardise.sd", 1.01), "other-request"),
    "another transform": (kinds.TRANSFORM, scale_array("0/standardise.sd", 1.01), "other-request"),
    "another centre": (kinds.PRODUCTS, scale_array("centre", 1.001), "other-request"),
    "numbers of people in categories": (kinds.PRODUCTS, scale_array("numbers", 2.0), "other-request"),
    "other sets": (
        kinds.MOMENTS,
        set_setting(sets=[[0, "member-0", "patients"], [0, "all", "patients"]]),
        "other-request",
    ),
    "another plan": (
        kinds.MOMENTS,
        lambda request: set_setting(plan={**request.settings["plan"], "seed": 1})(request),
        "other-request",
    ),
    "another number of blocks": (kinds.BLOCKS, set_setting(n_blocks={"controls": 9, "patients": 9}), "other-request"),
    "age as a category": (
        kinds.MEANS,
        set_setting(codings=[{"name": "age", "kind": "categorical", "levels": ["none", "61.09"]}]),
        "other-request",
    ),
    "another kind": (kinds.MOMENTS, lambda request: replace(request, kind=kinds.AGREEMENT), "other-request"),
    "a replaced key": (
        kinds.MEANS,
        change_sites(lambda sites: {**sites, "site-1": {**sites["site-1"], "key": "22" * 32}}),
        "not of the sites and keys|another-key",
    ),
    "an invented site": (
        kinds.MEANS,
        change_sites(lambda sites: {**sites, "z": STRANGER}),
        "not of the sites and keys",
    ),
    "a site less": (
        kinds.MOMENTS,
        change_sites(lambda sites: {name: entry for name, entry in sites.items() if name != "site-2"}),
        "not of the sites and keys",
    ),
    "a site that did not leave": (
        kinds.MOMENTS,
        change_sites(lambda sites: {**sites, "site-2": {**sites["site-2"], "until": 5}}),
        "not of the sites and keys",
    ),
    "more people than there are": (
        kinds.MEANS,
        change_sites(lambda sites: {**sites, "site-2": {**sites["site-2"], "controls": 5000}}),
        "not of the sites and keys|another-key",
    ),
    "without masks": (
        kinds.MOMENTS,
        lambda request: replace(request, settings={k: v for k, v in request.settings.items() if k != "sites"}),
        "not of the sites and keys",
    ),
}


def list_last_answers(root: Path) -> list[Answer]:
    """Return the answers to the last request."""
    number = max(int(name[:4]) for name in SharedFolder(root / "exchange", f"requests/{RUN}").list_names())
    folders = [SharedFolder(root / "exchange", f"answers/{RUN}/{site}") for site in NAMES]
    contents = [folder.read(f"{number:04d}.safetensors", 10**8) for folder in folders]
    return [Answer.decode(content) for content in contents if content is not None]


@pytest.mark.parametrize("name", ATTACKS)
def test_requests_that_the_program_would_not_make_are_refused(tmp_path: Path, name: str) -> None:
    kind, change, reason = ATTACKS[name]
    assert alter(tmp_path, kind, change, reason.split("|"))
    assert not any(secure.MASKED in answer.arrays for answer in list_last_answers(tmp_path))


def steepen(request: Request) -> Request:
    """A curve that jumps where region 0 has a value; another one nearby would tell of the patients between them."""
    arrays = dict(request.arrays)
    for name in [name for name in arrays if name.startswith(("weights.", "gram."))]:
        arrays[name] = np.zeros_like(arrays[name])
        arrays[name][..., 0] = 1e5
    return replace(request, arrays=arrays)


def widen(request: Request) -> Request:
    """A window of a rotation that is wide enough to be allowed; 200 of them are combined to a narrow one."""
    moved = {name: array + 0.5 for name, array in request.arrays.items() if name.startswith("offset.")}
    return replace(request, arrays={**request.arrays, **moved})


@pytest.mark.parametrize(
    ("kind", "change", "number"),
    [(kinds.CURVES, steepen, 1), pytest.param(kinds.ROTATION, widen, 2, marks=pytest.mark.slow)],
)
def test_steep_curves_and_windows_are_refused_under_masks(
    tmp_path: Path, kind: str, change: Change, number: int
) -> None:
    """The two attacks that work without masks: `test_dishonest_centre`."""
    settings = FederatedSettings(ModelConfig(patterns=(number,), members=2), masked=True)
    assert alter(tmp_path, kind, change, ["other-request"], settings)
    assert not any(secure.MASKED in answer.arrays for answer in list_last_answers(tmp_path))


@pytest.mark.parametrize("forged", ["site-0", "site-1"])
def test_answers_that_the_centre_replaced_are_noticed(tmp_path: Path, forged: str) -> None:
    """With other totals, a centre could lead the calculation of a site, here site-0, to any parameters."""
    n_numbers = 2 * (1 + simulate_people().volumes.shape[1] + simulate_people().covariates.shape[1])
    zeros = {secure.MASKED: np.zeros((n_numbers, 2), dtype=np.uint64)}

    class Forger(FolderTransport):
        def ask(self, request: Request) -> dict[str, Answer]:
            if request.kind == kinds.MEANS:
                header = {"request": request.digest, "request_signed": "", "signed": {"site-0": "00" * 32}}
                answer = Answer(request.digest, arrays=zeros, site=forged)
                self.get_answer_file(forged, 2).write(answer.encode(), header)
            return super().ask(request)

    def stop(text: str) -> None:
        if text.startswith("round 2,"):
            raise KilledError

    lines: list[str] = []
    services = [make_service(name, tmp_path) for name in NAMES]
    services[0].on_answer, services[1].on_answer = lines.append, stop if forged == "site-1" else lambda text: None
    start(services, 15.0)
    centre = Forger(tmp_path / "exchange", RUN, NAMES, {}, 15.0, 0.01, study=SETTINGS.to_dict())
    centre.begin()
    with pytest.raises(ExchangeError, match="do not cancel"):
        run_federated_study(centre, SETTINGS)
    end = time.monotonic() + 10.0
    expected = (
        f"the answer of {forged} in round 2 does not have the signature of this site and run: it is forged or repeated."
    )
    while expected not in lines and time.monotonic() < end:
        time.sleep(0.05)
    assert expected in lines
    for service in services:
        service._end = 0.0


def make_masked_site(root: Path, name: str = "site-0", seed: int = 0) -> tuple[Site, dict[str, Any]]:
    """Return a site that was started (again), and the settings of a request to it."""
    prints = list_prints(root)
    key = SiteKey.open(root / name, [each for other, each in prints.items() if other != name])
    cohort = split_cohort(simulate_people(), 3, seed)[name]
    site = Site(name, cohort, ledger=root / name / "ledger.json", key=key)
    own = {"controls": cohort.n_controls, "patients": cohort.n_patients}
    sites = {each: {"key": SiteKey.open(root / each).public, **own} for each in NAMES}
    return site, {
        **{"sites": sites, "codings": [], "regions": list(site.regions), "adjust": "log"},
        "n_columns": len(site.regions),
    }


def test_a_round_is_answered_once_also_after_a_restart(tmp_path: Path) -> None:
    """Nearly equal parameters, in whatever run; a table that changed; a plain request after masked ones."""
    site, settings = make_masked_site(tmp_path)
    numbers = np.full((2, len(site.regions)), 50.0)
    arrays = {"centre": np.zeros(len(site.regions)), "numbers": numbers}
    sizes = [3 * site.cohort.n_controls, 3 * site.cohort.n_patients]
    settings |= {"sets": [["everyone", "all", "controls"]], "plan": {"seed": 0, "members": 2, "sizes": sizes}}
    first = site.answer(Request("products", 3, settings, arrays))
    again = make_masked_site(tmp_path)[0].answer(Request("products", 3, settings, arrays))
    assert first.encode() == again.encode()
    with pytest.raises(RefusedError, match="another-round 3"):
        make_masked_site(tmp_path)[0].answer(
            Request("products", 3, settings, {**arrays, "centre": arrays["centre"] + 1e-9})
        )
    fewer = {**settings, "sites": {name: each for name, each in settings["sites"].items() if name != "site-2"}}
    with pytest.raises(WaitingError, match="not asked of all sites"):
        make_masked_site(tmp_path)[0].answer(Request("products", 4, fewer, arrays))
    plain = {name: each for name, each in settings.items() if name != "sites"}
    with pytest.raises(RefusedError, match="other-masks"):
        make_masked_site(tmp_path)[0].answer(Request("products", 4, plain, arrays))
    site = make_masked_site(tmp_path)[0]
    site.cohort.volumes.iloc[0, 0] += 1.0
    with pytest.raises(RefusedError, match="another-table"):
        site.answer(Request("products", 3, settings, arrays))


def test_another_study_over_the_same_people_is_refused(tmp_path: Path) -> None:
    """Repeated runs with other seeds or settings."""
    site, settings = make_masked_site(tmp_path)
    site.bind_study(SETTINGS.to_dict())
    site.answer(Request("means", 2, settings))
    with pytest.raises(RefusedError, match="another-study"):
        make_masked_site(tmp_path)[0].bind_study(replace(SETTINGS, seed=1).to_dict())


def test_a_run_that_says_that_it_has_no_masks_gets_nothing(tmp_path: Path) -> None:
    """A site that accepted others neither answers plain requests, nor masked ones that it cannot repeat."""
    site, settings = make_masked_site(tmp_path / "private")
    for number, own in ((1, settings), (2, {k: v for k, v in settings.items() if k != "sites"})):
        run = f"{number:012d}"
        centre = FolderTransport(tmp_path / "exchange", run, NAMES, {}, 0.0, 0.0)
        centre.begin()
        MessageFile(SharedFolder(tmp_path / "exchange", f"requests/{run}"), 1).write(
            Request("means", 1, own).encode(), {"kind": "means"}
        )
        SiteService(site, tmp_path / "exchange", tmp_path / "private" / "site-0", poll=0.01).serve(0.0)
    log = (tmp_path / "private" / "site-0" / "log.tsv").read_text().splitlines()
    assert "other-request: it has masks" in log[1]
    assert "other-masks" in log[2]


def test_people_must_accept_the_other_sites(tmp_path: Path) -> None:
    folder = tmp_path / "private" / "site-0"
    folder.mkdir(parents=True)
    site, lines = Site("site-0", simulate_people(), key=SiteKey.open(folder)), list[str]()
    make_centre(tmp_path, patience=0.0)
    service = SiteService(site, tmp_path / "exchange", folder, poll=0.01, on_answer=lines.append)
    assert service.serve(0.0) is None
    assert lines == [
        "2 other sites take part: compare their fingerprints by telephone, then accept each (--accept FINGERPRINT)."
    ]
    plain = SiteService(Site("site-0", simulate_people()), tmp_path / "exchange", folder, without_masks=False)
    FolderTransport(tmp_path / "exchange", RUN, NAMES, {}, 0.0, 0.0).begin()
    plain.on_answer = lines.append
    assert plain.serve(0.0) is None
    assert "allow it (--no-masks)" in lines[-1]
