"""The explorer's page in a real browser: every control, drawing, downloads, the address."""

import contextlib
import io
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from playwright.sync_api import Error, expect

import batchlaw as bl
from batchlaw.faces.app.refusals import BUG
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.faces.app.view import view
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers import TRAINERS, export
from browser import CHROMIUM, needs_chromium

pytestmark = [*needs_chromium, pytest.mark.process]
WAIT = 120_000
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def address():
    command = [sys.executable, "-m", "batchlaw", "explore", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        found = server.stdout.readline().split()[0]
        # Wait here, once, for what is compiled on first use.
        for procedure in ("one-pass", "multi-pass", "reshuffled"):
            for name in ("view", "along", "collapse"):
                asked = urllib.request.Request(
                    f"{found}api/{name}",
                    json.dumps({"procedure": procedure}).encode(),
                    {"Content-Type": "application/json"},
                )
                urllib.request.urlopen(asked, timeout=600).close()
        yield found
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


@pytest.fixture(scope="session")
def browser_type_launch_args():
    """Debian's Chromium, for pytest-playwright's ``browser``."""
    assert CHROMIUM, "the browser tests must have Chromium: apt-get install chromium"
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}


@pytest.fixture
def page(browser, address):
    """A fresh page; the test fails if it logged an error or contacted another host."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    new_page = context.new_page()
    new_page.set_default_timeout(WAIT)
    troubles = []
    new_page.on("console", lambda m: troubles.append(m.text) if m.type == "error" else None)
    new_page.on("pageerror", lambda error: troubles.append(str(error)))
    new_page.on(
        "request",
        lambda r: None if r.url.startswith((address, "data:", "blob:")) else troubles.append(r.url),
    )
    # The browser logs refused requests; a test that provokes some sets ``page.refusals``.
    new_page.refusals = False
    yield new_page
    context.close()
    expected = ("422", "500") if new_page.refusals else ()
    assert [text for text in troubles if not any(status in text for status in expected)] == []


def _open(page, address, fragment=""):
    page.goto(address + fragment)
    _settled(page)


def _settled(page):
    """Wait until all requests are answered and shown, and the address holds the state."""
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")


def _until(page, condition):
    """Let the page and the routes run until a condition holds."""
    for _ in range(WAIT // 20):
        if condition():
            return
        page.wait_for_timeout(20)
    raise AssertionError("it did not happen")


def _summary(page):
    rows = page.locator("#summary tbody tr").all_inner_texts()
    table = [row.split("\t") for row in rows]
    return {row[0]: row[1:] for row in table}


def _after(page, change):
    """Do something, and wait for the resulting view."""
    body = page.locator("body")
    before = body.get_attribute("data-shown")
    change()
    expect(body).not_to_have_attribute("data-shown", before)


def _number(text):
    return float(text.removesuffix(" %"))


def _numbers(cells):
    """The numbers of a row of the summary; a cell may have a change below its value."""
    return [_number(line) for cell in cells for line in cell.split("\n")]


def test_the_numbers_on_the_page_are_those_of_the_package(page, address):
    _open(page, address)
    problem, rates = bl.Problem.paper(), bl.wsd(64, 0.05)
    kappa = bl.influence(problem, rates)
    plan = bl.plan(rates, 512, rule=bl.sgd(), spectrum=problem, stages=4)
    greedy = bl.allocate(kappa, 512)
    found = _summary(page)
    assert list(found) == ["greedy", "planned", "constant"]
    header = page.locator("#summary thead th").all_inner_texts()
    assert header == ["schedule", "risk", "excess", "variance", "B_eff", "score", "samples"]
    constant = bl.one_pass_risk(problem, rates, np.full(64, 8.0))
    for name, batches in zip(found, (greedy, plan.batches, np.full(64, 8.0)), strict=True):
        risk = bl.one_pass_risk(problem, rates, batches)
        effective = bl.effective_batch(kappa, batches)
        score = 100 * effective / bl.effective_batch(kappa, greedy)
        expected = []
        for part in ("total", "excess", "variance"):
            value, other = getattr(risk, part), getattr(constant, part)
            expected += [value] if name == "constant" else [value, 100 * (value / other - 1)]
        expected += [effective, score, batches.sum()]
        shown = _numbers(found[name])
        np.testing.assert_allclose(shown, expected, rtol=5e-3)
        assert shown[0] == pytest.approx(risk.total, rel=1e-4)
        bars = {part: getattr(risk, part) for part in ("approximation", "bias", "variance")}
        for part, value in bars.items():
            title = page.locator(f"#risk-bars title:text('{name}, {part}:')").first
            assert _number(title.text_content().split()[-1]) == pytest.approx(value, rel=1e-4)
    stages = page.locator("#stages tbody tr").all_inner_texts()
    assert [row.split("\t") for row in stages] == [
        [f"{row['first']} to {row['last']}", str(row["batch"]), str(row["before"])]
        for row in plan.stage_table()
    ]


def test_the_numbers_of_data_reuse_are_those_of_the_package(page, address):
    _open(page, address, "#procedure=multi-pass&steps=128&samples=100&budget=1024")
    problem, rates, batches = bl.Problem.paper(), bl.wsd(128, 0.05), np.full(128, 8.0)
    risk = bl.multi_pass_risk(problem, rates, batches, samples=100)
    rho = bl.effective_fluctuation(bl.influence(problem, rates), batches, 100)
    found = _numbers(_summary(page)["constant"])
    expected = (risk.total, risk.excess, risk.fluctuation, rho, 1024)
    np.testing.assert_allclose(found[:-2] + found[-1:], expected, rtol=1e-4)


def _pointed(page, chart, share):
    """The legend of a chart with the mouse at a share of its width."""
    box = page.locator(f"#{chart} .u-over").bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
    rows = page.locator(f"#{chart} .u-legend tr").all()
    return {
        row.locator(".u-label").inner_text(): float(row.locator(".u-value").inner_text())
        for row in rows
    }


def test_the_curves_are_those_of_the_package(page, address):
    _open(page, address)
    problem, rates = bl.Problem.paper(), bl.wsd(64, 0.05)
    kappa = bl.influence(problem, rates)
    greedy = bl.allocate(kappa, 512)
    path = bl.one_pass_risk(problem, rates, greedy, trajectory=True)
    page.select_option("#along-part", "noise")
    for share in (0.2, 0.5, 0.9):
        page.locator("#influence-chart").scroll_into_view_if_needed()
        found = _pointed(page, "influence-chart", share)
        t = int(found["update"]) - 1
        expected = (rates[t], kappa[t] / kappa.max(), np.sqrt(kappa[t] / kappa.max()))
        shown = [found[name] for name in ("learning rate", "influence κ", "√κ")]
        np.testing.assert_allclose(shown, expected, rtol=5e-3)
        found = _pointed(page, "batches-chart", share)
        assert found["greedy"] == greedy[int(found["update"]) - 1]
        page.locator("#along-chart").scroll_into_view_if_needed()
        found = _pointed(page, "along-chart", share)
        assert found["greedy"] == pytest.approx(path.variance[int(found["update"])], rel=5e-3)


# A value for every field of a setting, with the address at which the field is shown.
REUSE = "procedure=multi-pass&steps=128&budget=1024"
ADAM = "optimizer=adam&peak=0.02&steps=40&m=16&budget=320"
CHANGES = {
    "rates": ("cosine", ""),
    "steps": ("128", ""),
    "peak": ("0.1", ""),
    "warmup": ("0", ""),
    "stable": ("0.8", ""),
    "decay": ("cosine", ""),
    "final": ("0.3", ""),
    "power": ("1.5", "rates=polynomial"),
    "drops": ("0.3,50", "rates=step"),
    "factor": ("0.5", "rates=step"),
    "problem": ("sketch", ""),
    "d": ("5000", ""),
    "m": ("32", ""),
    "a": ("1.7", ""),
    "b": ("2.2", ""),
    "sigma": ("2", ""),
    "seed": ("5", "problem=power-law"),
    "prior": ("true", ""),
    "procedure": ("multi-pass", ""),
    "samples": ("128", REUSE),
    "replacement": ("true", REUSE),
    "method": ("simple", f"{REUSE}&samples=2000"),
    "momentum": ("0.5", ""),
    "nesterov": ("true", "momentum=0.3"),
    "pytorch": ("true", "momentum=0.3"),
    "average": ("ema:0.9", ""),
    "optimizer": ("adamw", "peak=0.02"),
    "beta1": ("0.5", ADAM),
    "beta2": ("0.95", ADAM),
    "eps": ("0.5", ADAM),
    "weight_decay": ("0.3", ADAM),
    "basis": ("eigen", ADAM),
    "budget": ("1024", ""),
    "min_batch": ("2", ""),
    "max_batch": ("12", ""),
    "multiple_of": ("2", ""),
    "stages": ("2", ""),
}


def test_every_field_has_a_control_that_is_tested():
    assert {*CHANGES, "spectrum"} == set(page_setting().model_fields)


@pytest.mark.parametrize("name", CHANGES)
def test_every_control_changes_the_view_and_the_address(page, address, name):
    value, fragment = CHANGES[name]
    _open(page, address, f"#{fragment}")
    others = dict(part.split("=") for part in fragment.split("&") if part)
    _change_and_compare(page, name, value, others)


def _read(text):
    return json.loads(text) if re.fullmatch(r"\d+(\.\d+)?|true", text) else text


def _change_and_compare(page, name, value, others):
    """The view after a change is that of the changed setting, and another one than before."""
    before = page.locator("#results").inner_text()
    control = page.locator(f"#set-{name}")
    if value == "true":
        _after(page, control.check)
    elif control.evaluate("node => node.tagName") == "SELECT":
        _after(page, lambda: control.select_option(value))
    else:
        control.fill(value)
        _after(page, control.blur) if name in ("drops", "average") else _settled(page)
    _settled(page)
    assert page.locator("#results").inner_text() != before
    assert f"{name}={urllib.parse.quote(value)}" in page.url
    assert not page.locator("#error").is_visible()
    asked = {each: _read(text) for each, text in (others | {name: value}).items()}
    expected = view(page_setting()(**asked))
    for row, texts in zip(expected.schedules, _summary(page).values(), strict=True):
        bias = ["bias"] if expected.sensitivity else []
        numbers = []
        for part in ("total", "excess", *bias, expected.noise):
            term = "noise" if part == expected.noise else part
            change = 100 * (getattr(row.against_constant, term) - 1)
            numbers += [getattr(row.risk, part), *([change] if row.name != "constant" else [])]
        summary = [row.effective, 100 * row.score] if expected.summary else []
        numbers += [*summary, row.samples]
        np.testing.assert_allclose(_numbers(texts), numbers, rtol=6e-3, atol=1e-9)


def test_the_verdict_comes_first_with_the_rules_that_people_use(page, address):
    _open(page, address, f"#{ADAM}")
    asked = {part.split("=")[0]: _read(part.split("=")[1]) for part in ADAM.split("&")}
    expected = view(page_setting()(**asked)).verdict
    assert page.locator("#results h2").first.inner_text() == "Verdict"
    for part in ("recommendation", "worth", "evidence"):
        text = getattr(expected, part)
        expect(page.locator(f"#{part}")).to_have_text(f"{text[0].upper()}{text[1:]}.")
    page.click("#other-rules summary")
    rows = [row.split("\t") for row in page.locator("#rules tbody tr").all_inner_texts()]
    own = [f" ({rule.steps} updates)" if rule.steps else "" for rule in expected.rules]
    names = [f"{rule.name}{steps}" for rule, steps in zip(expected.rules, own, strict=True)]
    assert [row[0] for row in rows] == names
    shown = [_number(row[1]) for row in rows]
    np.testing.assert_allclose(shown, [100 * (r.median - 1) for r in expected.rules], rtol=6e-3)


def test_the_best_schedule_is_searched_for_on_request(page, address):
    _open(page, address, f"#{ADAM}")
    assert list(_summary(page)) == ["planned", "constant"]
    assert not page.locator("#certificate").is_visible()
    page.click("#search")
    expect(page.locator("#summary tbody tr")).to_have_count(3)
    _settled(page)
    assert list(_summary(page)) == ["best", "planned", "constant"]
    expect(page.locator("#certificate")).to_contain_text("without a proven bound")
    expect(page.locator("#search")).to_be_hidden()
    expect(page.locator("#along-chart .u-legend")).to_contain_text("best")
    _after(page, lambda: page.fill("#set-budget", "400"))
    assert list(_summary(page)) == ["planned", "constant"]
    assert not page.locator("#certificate").is_visible()


def test_an_optimizer_brings_its_presets(page, address):
    _open(page, address)
    _after(page, lambda: page.select_option("#set-optimizer", "momentum"))
    expect(page.locator("#set-momentum")).to_have_value("0.9")
    expect(page.locator("#set-pytorch")).to_be_hidden()
    assert "momentum=0.9" not in page.url
    first = page.locator("#results").inner_text()
    _open(page, address, "#optimizer=momentum&steps=64")
    assert page.locator("#results").inner_text() == first
    _after(page, lambda: page.select_option("#set-optimizer", "adamw"))
    expect(page.locator("#set-weight_decay")).to_have_value("0.01")
    expect(page.locator("#set-momentum")).to_be_hidden()
    _after(page, lambda: page.select_option("#set-optimizer", "sgd"))
    expect(page.locator("#set-momentum")).to_have_value("0")


def test_what_adam_does_not_have_says_why(page, address):
    page.refusals = True
    _open(page, address, f"#{ADAM}")
    expect(page.locator("#collapse-reason")).to_contain_text("Left out: with Adam")
    page.select_option("#set-procedure", "multi-pass")
    expect(page.locator("#error")).to_contain_text("the mean field of Adam is for one pass")
    expect(page.locator("#set-optimizer")).to_have_attribute("aria-invalid", "true")
    _open(page, address, "#optimizer=adam&steps=1000&budget=8000")
    for part in ("verdict", "plan"):
        expect(page.locator(f"#{part}-reason")).to_contain_text("longer than a view may")
    assert page.locator("#search").is_visible()
    _open(page, address, "#optimizer=adam&steps=4000&budget=32000")
    expect(page.locator("#verdict-reason")).to_contain_text("batchlaw plan has no such limit")
    assert page.locator("#search").is_hidden()


def test_fields_without_use_are_hidden_and_not_asked_for(page, address):
    """The link names some that have none: the view is that of the others."""
    _open(page, address, "#procedure=multi-pass&momentum=0&momentum_form=pytorch&power=3")
    hidden = ("nesterov", "pytorch", "power", "drops", "factor", "spectrum")
    for name in hidden:
        assert page.locator(f"#set-{name}").is_hidden()
    for name in ("samples", "replacement", "method", "stable", "final", "momentum", "average"):
        assert page.locator(f"#set-{name}").is_visible()
    assert not page.locator("#error").is_visible()
    page.select_option("#set-procedure", "one-pass")
    expect(page.locator("#set-samples")).to_be_hidden()
    expect(page.locator("#set-momentum")).to_be_visible()


def test_a_simulated_risk_shows_its_errors_and_says_what_is_left_out(page, address):
    _open(page, address, "#procedure=reshuffled&samples=64&steps=32&budget=256&draw=1 2 5 3")
    asked = {"procedure": "reshuffled", "samples": 64, "steps": 32, "budget": 256}
    expected = view(page_setting()(**asked))
    summary = _summary(page)
    for row in expected.schedules:
        value, error, *change = summary[row.name][2].split("\n")
        assert float(value) == pytest.approx(row.risk.fluctuation, rel=6e-3)
        shown = float(error.removeprefix("± "))
        assert shown == pytest.approx(row.risk.standard_error["fluctuation"], rel=0.05)
        assert len(change) == (0 if row.name == "constant" else 2)
        if change:
            against = row.against_constant
            assert _number(change[0]) == pytest.approx(100 * (against.noise - 1), rel=0.06)
            spread = 100 * against.standard_error["noise"]
            assert float(change[1].removeprefix("± ")) == pytest.approx(spread, rel=0.05)
        assert "±" in summary[row.name][0]
        assert "±" in summary[row.name][1]
        title = page.locator(f"#risk-bars title:text('{row.name}, cross:')").first
        assert "±" in title.text_content()
    assert [cell.count("±") for cell in summary["drawn"][:3]] == [2, 2, 2]
    for name in ("along", "collapse"):
        expect(page.locator(f"#{name}-reason")).to_contain_text("Left out: ")
        assert page.locator(f"#{name}-chart").is_hidden()
    assert not page.locator("#error").is_visible()
    _after(page, lambda: page.select_option("#set-procedure", "one-pass"))
    _settled(page)
    for name in ("along", "collapse"):
        assert page.locator(f"#{name}-reason").is_hidden()
        assert page.locator(f"#{name}-chart canvas").is_visible()


def test_sliders_move_their_boxes_and_the_view(page, address):
    _open(page, address)
    slider = page.locator("#set-steps").locator("xpath=..").locator("input[type=range]")
    slider.focus()
    _after(page, lambda: page.keyboard.press("PageUp"))
    steps = int(page.locator("#set-steps").input_value())
    assert steps != 64
    assert f"steps={steps}" in page.url


def test_a_link_shows_the_same_view(page, address):
    fragment = "#steps=256&peak=0.08&budget=4096&stages=3&along-part=noise&draw=1 2 5 3"
    _open(page, address, fragment)
    expect(page.locator("#summary tbody tr")).to_have_count(4)
    first = page.locator("#results").inner_text()
    page.goto("about:blank")
    _open(page, address, fragment)
    expect(page.locator("#summary tbody tr")).to_have_count(4)
    assert page.locator("#results").inner_text() == first
    assert page.locator("#set-steps").input_value() == "256"
    assert page.locator("#along-part").input_value() == "noise"


def _heights(page):
    fragment = page.evaluate("decodeURIComponent(location.hash)")
    return [float(h) for h in re.search(r"draw=([\d.+e-]+)", fragment)[1].split("+")]


def test_a_schedule_drawn_with_the_mouse_is_scored_as_by_effective_batch(page, address):
    _open(page, address)
    box = page.locator("#batches-chart .u-over").bounding_box()

    def at(x, y):
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    page.mouse.move(*at(0.02, 0.9))
    page.mouse.down()
    for k in range(1, 11):
        page.mouse.move(*at(0.02 + 0.096 * k, 0.9 - 0.07 * k))
    page.mouse.up()
    _settled(page)
    heights = np.array(_heights(page))
    shape = np.interp(np.linspace(0, 1, 64), np.linspace(0, 1, heights.size), heights)
    batches = bl.allocate(shape**2, 512)
    kappa = bl.influence(bl.Problem.paper(), bl.wsd(64, 0.05))
    ours = bl.effective_batch(kappa, batches)
    score = 100 * ours / bl.effective_batch(kappa, bl.allocate(kappa, 512))
    drawn = _summary(page)["drawn"]
    assert _number(drawn[3]) == pytest.approx(ours, rel=1e-4)
    assert _number(drawn[4]) == pytest.approx(score, abs=0.006)
    page.click("#clear-drawing")
    expect(page.locator("#summary tbody tr")).to_have_count(3)
    assert "draw" not in page.url


def test_a_schedule_drawn_with_the_keyboard(page, address):
    _open(page, address)
    page.locator("#batches-chart").focus()
    for key in ["ArrowRight"] * 4 + ["ArrowUp"] * 6:
        page.keyboard.press(key)
    _settled(page)
    assert "drawn" in _summary(page)
    assert max(_heights(page)) == pytest.approx(8 * 1.1**6, rel=1e-3)


def test_a_finger_draws_sideways_and_scrolls_up_and_down(page, address):
    page.set_viewport_size({"width": 390, "height": 700})
    _open(page, address)
    chart = page.locator("#batches-chart .u-over")
    chart.scroll_into_view_if_needed()
    fingers = page.context.new_cdp_session(page)
    fingers.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    def swipe(across, up):
        box = chart.bounding_box()
        at = {"x": box["x"] + 0.3 * box["width"], "y": box["y"] + 0.5 * box["height"]}
        fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
        for k in range(1, 11):
            moved = {"x": at["x"] + across * k / 10, "y": at["y"] - up * k / 10}
            fingers.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [moved]})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    before = page.evaluate("scrollY")
    swipe(across=0, up=100)
    _until(page, lambda: page.evaluate("scrollY") > before + 50)
    assert "draw" not in page.url
    swipe(across=100, up=5)
    _settled(page)
    assert "drawn" in _summary(page)
    assert len(set(_heights(page))) > 3


LAYOUT = {"sequence_length": 128, "data_parallel": 2, "micro_batch": 2}


@pytest.mark.parametrize("format_", [*TRAINERS, "csv", "png"])
def test_downloads_parse_back(page, address, format_):
    layout = "&".join(f"{name}={value}" for name, value in LAYOUT.items())
    _open(page, address, f"#budget=1024&multiple_of=4&decay=linear&{layout}")
    with page.expect_download() as waiting:
        page.click(f"#downloads button[data-format={format_}]")
    content = Path(waiting.value.path()).read_bytes()
    plan = bl.plan(
        bl.wsd(64, 0.05, decay="linear"),
        1024,
        rule=bl.sgd(),
        spectrum=bl.Problem.paper(),
        stages=4,
        multiple_of=4,
        batch_factor=TRAINERS["olmo"].batch_factor if format_ == "olmo" else None,
    )
    if format_ == "json":
        found = Plan.from_json(content.decode())
        assert found.stages == plan.stages
        np.testing.assert_array_equal(found.rates, plan.rates)
    elif format_ == "csv":
        lines = content.decode().splitlines()[1:]
        assert [int(line.split(",")[2]) for line in lines] == plan.batches.tolist()
    elif format_ == "png":
        image = matplotlib.image.imread(io.BytesIO(content), format="png")
        assert min(image.shape[:2]) > 300
    else:
        # The contents of trainer files are tested with the exports.
        assert content.decode() == export(plan, format_, **LAYOUT).text


def test_trainers_that_need_more_say_what(page, address):
    page.refusals = True
    _open(page, address)
    page.click("#downloads button[data-format=megatron]")
    expect(page.locator("#download-note")).to_contain_text("tokens per sample must be given")
    page.fill("#sequence_length", "2048")
    with page.expect_download() as waiting:
        page.click("#downloads button[data-format=megatron]")
    assert "--seq-length 2048" in Path(waiting.value.path()).read_text()


def test_a_check_lands_its_dots_and_can_be_stopped(page, address):
    _open(page, address, "#problem=truncation&m=16&steps=32&budget=256")
    page.fill("#repetitions", "100")
    page.click("#start-check")
    expect(page.locator("#check-said")).to_contain_text("100 of 100; at most ")
    apart = float(re.search(r"at most ([\d.]+) s.e.", page.inner_text("#check-said"))[1])
    assert 0.0 < apart < 5.0
    # Long enough to be stopped.
    _after(page, lambda: page.fill("#set-budget", "20000"))
    _after(page, lambda: page.fill("#set-steps", "2000"))
    page.fill("#repetitions", "2000")
    page.click("#start-check")
    _after(page, lambda: page.fill("#set-budget", "25000"))
    expect(page.locator("#check-said")).to_have_text("stopped: the setting has changed")
    page.click("#start-check")
    with page.expect_response(lambda r: r.request.method == "DELETE") as stopping:
        page.click("#stop-check")
    assert stopping.value.status == 204
    expect(page.locator("#check-said")).to_contain_text("stopped")
    name = stopping.value.url.rpartition("/")[2]
    state = page.evaluate("url => fetch(url).then(r => r.json())", f"/api/checks/{name}")
    assert state["cancelled"]
    # Another setting has not been checked.
    _after(page, lambda: page.fill("#set-budget", "30000"))
    expect(page.locator("#check-said")).to_have_text("")


def test_a_check_that_is_overtaken_is_stopped(page, address):
    """The setting changes before the server has replied with the id of the check."""
    _open(page, address, "#problem=truncation&m=16&steps=32&budget=256&repetitions=2000")
    held = []
    page.route("**/api/checks", lambda route: held.append(route))
    page.click("#start-check")
    _until(page, lambda: held)
    _after(page, lambda: page.fill("#set-budget", "300"))
    with page.expect_response(lambda r: r.request.method == "DELETE") as stopping:
        held[0].continue_()
    assert stopping.value.status == 204
    assert page.locator("#stop-check").is_disabled()
    assert not page.locator("#check-progress").is_visible()


def test_a_bad_setting_is_explained_and_forgiven(page, address):
    page.refusals = True
    _open(page, address)
    page.fill("#set-budget", "10")
    expect(page.locator("#error")).to_contain_text("samples in all must be at least 64 updates x")
    expect(page.locator("#set-budget")).to_have_attribute("aria-invalid", "true")
    _after(page, lambda: page.fill("#set-budget", "640"))
    assert not page.locator("#error").is_visible()
    expect(page.locator("#set-budget")).to_have_attribute("aria-invalid", "false")


def test_a_bug_of_the_server_is_said_as_such(page, address):
    page.refusals = True
    _open(page, address)
    bug = json.dumps({"detail": BUG})
    page.route("**/api/view", lambda route: route.fulfill(status=500, body=bug))
    page.fill("#set-budget", "640")
    expect(page.locator("#error")).to_have_text(BUG)


def test_a_stale_reply_never_overwrites_a_newer_one(page, address):
    """The first reply is held back until the second is shown."""
    _open(page, address)
    held = []

    def slow(route):
        body = json.loads(route.request.post_data)
        if body["budget"] == 1000:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/view", slow)
    page.fill("#set-budget", "1000")
    _until(page, lambda: held)
    _after(page, lambda: page.fill("#set-budget", "2000"))
    shown = _summary(page)["constant"][-1]
    with contextlib.suppress(Error):  # the page may have aborted the request, which is fine
        held[0].continue_()
    page.wait_for_timeout(500)
    assert shown == _summary(page)["constant"][-1] == "2000"


def test_a_stale_collapse_and_a_stale_score_are_left_out(page, address):
    _open(page, address, "#draw=1 2 5 3")
    expect(page.locator("#summary tbody tr")).to_have_count(4)
    held = []

    def slow(route):
        body = json.loads(route.request.post_data)
        if body.get("setting", body)["budget"] == 1000:
            held.append(route)
        else:
            route.continue_()

    page.route(re.compile("/api/(collapse|score|along)"), slow)
    _after(page, lambda: page.fill("#set-budget", "1000"))
    _until(page, lambda: len(held) == 3)
    _after(page, lambda: page.fill("#set-budget", "2000"))
    _settled(page)
    page.locator("#along-chart").scroll_into_view_if_needed()
    drawn, run = _summary(page)["drawn"], _pointed(page, "along-chart", 0.9)
    assert drawn[-1] == "2000"
    for route in held:
        with contextlib.suppress(Error):
            route.continue_()
    page.wait_for_timeout(500)
    assert _summary(page)["drawn"] == drawn
    assert _pointed(page, "along-chart", 0.9) == run


def test_a_stale_reply_does_not_cover_a_refusal(page, address):
    _open(page, address)
    held = []
    page.route("**/api/view", lambda route: held.append(route))
    page.fill("#set-budget", "1000")
    _until(page, lambda: held)
    page.select_option("#set-problem", "spectrum")
    expect(page.locator("#error")).to_have_text("choose a file with the spectrum")
    for route in held:
        with contextlib.suppress(Error):
            route.continue_()
    page.wait_for_timeout(500)
    expect(page.locator("#error")).to_have_text("choose a file with the spectrum")
    assert page.locator("#status").inner_text() == "not computed"


def test_a_refused_score_is_forgiven_with_the_next_and_with_the_drawing(page, address):
    page.refusals = True
    _open(page, address)
    error, held = page.locator("#error"), []
    page.route("**/api/score", lambda route: held.append(route.fulfill(status=422, body="no")))
    chart = page.locator("#batches-chart")
    for mend in (lambda: chart.press("ArrowUp"), lambda: page.click("#clear-drawing")):
        chart.press("ArrowUp")
        expect(error).to_be_visible()
        assert error.inner_text() == "no"
        page.unroute("**/api/score")
        mend()
        expect(error).to_be_hidden()
        expect(page.locator("body")).not_to_have_attribute("data-stale", "")
        page.route("**/api/score", lambda route: held.append(route.fulfill(status=422, body="no")))
    _settled(page)
    assert len(held) == 2


def test_a_drawing_that_is_removed_at_once_asks_nothing(page, address):
    _open(page, address)
    page.evaluate(
        "document.getElementById('batches-chart').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'ArrowUp'})),"
        "document.getElementById('clear-drawing').click()"
    )
    _settled(page)
    assert not page.locator("#error").is_visible()
    assert "drawn" not in _summary(page)


def test_the_page_is_busy_until_all_has_come(page, address):
    page.refusals = True
    _open(page, address)
    held = []
    page.route("**/api/along", lambda route: route.fulfill(status=422, body="no"))
    page.route("**/api/collapse", lambda route: held.append(route))
    _after(page, lambda: page.fill("#set-budget", "1000"))
    _until(page, lambda: held)
    page.wait_for_timeout(200)
    assert page.locator("#results").get_attribute("aria-busy") == "true"
    held[0].continue_()
    _settled(page)
    expect(page.locator("#error")).to_have_text("no")


def test_keys_before_there_is_a_view_draw_nothing(page, address):
    page.refusals = True
    page.goto(f"{address}#budget=10")
    expect(page.locator("#error")).to_be_visible()
    page.locator("#batches-chart").press("ArrowUp")
    _settled(page)
    assert "draw" not in page.url


def test_where_the_score_misleads_the_page_says_so(page, address):
    _open(page, address)
    assert not page.locator("#notes").is_visible()
    _after(page, lambda: page.fill("#set-peak", "2"))
    expect(page.locator("#notes")).to_contain_text("The second moment grows at about")
    expect(page.locator("#notes")).to_contain_text("The score is off here: by it the greedy")


def test_links_that_are_wrong_in_part_still_show_a_view(page, address):
    _open(page, address, "#along-part=foo&procedure=multi-pass&momentum=0.5&nothing=1&draw=x&m=y")
    assert len(_summary(page)) == 3
    assert page.locator("#along-part").input_value() == "total"
    assert not page.locator("#error").is_visible()


def test_a_box_that_is_left_empty_shows_what_is_in_force(page, address):
    _open(page, address)
    page.fill("#set-steps", "")
    page.locator("#set-peak").focus()
    expect(page.locator("#set-steps")).to_have_value("64")


@pytest.mark.parametrize("key", ["ArrowRight", "ArrowLeft"])
def test_every_slider_moves_with_the_arrow_keys(page, address, key):
    page.refusals = True  # together the sliders may come to a setting that is refused
    _open(page, address, "#momentum=0.5&budget=2000")
    for slider in page.locator("#controls input[type=range]").all():
        if not slider.is_visible():
            continue
        box = slider.locator("xpath=..").locator("input[type=number]")
        before = float(box.input_value())
        slider.focus()
        for _ in range(12):
            page.keyboard.press(key)
        after = float(box.input_value())
        assert after > before if key == "ArrowRight" else after < before


def test_an_uploaded_spectrum(page, address, tmp_path):
    file = tmp_path / "spectrum.csv"
    _open(page, address)
    page.select_option("#set-problem", "spectrum")
    expect(page.locator("#error")).to_have_text("choose a file with the spectrum")
    for text, said in (
        ("eigenvalue,energies\n1.0,1.0\n", "must have a column energy, got eigenvalue,energies"),
        ("eigenvalue,energy\n1.0,1.0\n0.5,x\n", "must have a number in column energy, row 3"),
        ("", "spectrum.csv is empty"),
        ("eigenvalue;energy\n1;1\n", "a column eigenvalue and commas between columns, got"),
        ("eigenvalue,energy\n" + "1,1\n" * 2000, "must have at most 1024 rows, got 2000"),
    ):
        file.write_text(text)
        page.set_input_files("#set-spectrum", str(file))
        expect(page.locator("#error")).to_contain_text(said)
    file.write_text("eigenvalue,energy\n1.0,1.0\n0.5,2.0\n0.25,3.0\n")
    _after(page, lambda: page.set_input_files("#set-spectrum", str(file)))
    problem = bl.Problem.from_spectrum([1.0, 0.5, 0.25], [1.0, 2.0, 3.0], 1.0)
    risk = bl.one_pass_risk(problem, bl.wsd(64, 0.05), np.full(64, 8.0))
    assert _number(_summary(page)["constant"][0]) == pytest.approx(risk.total, rel=5e-5)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 768, 900, 1280])
@pytest.mark.parametrize(
    "fragment",
    [
        "",
        "#procedure=multi-pass&steps=128&budget=1024&draw=1 2 5 3&stages=9",
        "#procedure=reshuffled&rates=step&draw=1 2 5 3",
        f"#{ADAM}&draw=1 2 5 3",
    ],
)
def test_nothing_is_cut_off_or_overlaps(page, address, width, scheme, fragment):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    _open(page, address, fragment)
    rows = 4 if fragment and ADAM not in fragment else 3
    expect(page.locator("#summary tbody tr")).to_have_count(rows)
    hidden = page.evaluate(
        "[...document.querySelectorAll('.scroll')].map(n => n.scrollWidth - n.clientWidth)"
    )
    assert max(hidden) <= 0
    over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert over <= 0
    boxes = page.evaluate(
        "[...document.querySelectorAll('.panel, #controls details')].map(n => {"
        "const b = n.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"
    )
    for i, a in enumerate(boxes):
        assert a[2] <= width + 1
        for b in boxes[i + 1 :]:
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert apart


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_buttons_have_contrast(page, address, scheme):
    """4.5 to 1, as WCAG's level AA asks of text; 3 to 1 for the lines of charts."""
    page.emulate_media(color_scheme=scheme)
    _open(page, address)
    names = (
        "ground panel text quiet accent accent-text bad greedy planned constant drawn approximation"
    )
    colours = page.evaluate(
        "names => names.map(n => getComputedStyle(document.documentElement)"
        ".getPropertyValue('--' + n).trim())",
        names.split(),
    )
    shade = dict(zip(names.split(), map(_luminance, colours), strict=True))
    for text in ("text", "quiet", "bad"):
        assert _contrast(shade[text], shade["ground"]) >= 4.5
        assert _contrast(shade[text], shade["panel"]) >= 4.5
    assert _contrast(shade["accent-text"], shade["accent"]) >= 4.5
    for line in ("greedy", "planned", "constant", "drawn", "approximation"):
        assert _contrast(shade[line], shade["panel"]) >= 3.0


def _luminance(colour):
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(one, other):
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_every_control_has_a_label_and_can_be_reached_with_the_keyboard(page, address):
    _open(page, address)
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, button')].filter(n =>"
        "!(n.labels && n.labels.length) && !n.getAttribute('aria-label') && !n.textContent.trim())"
        ".map(n => n.outerHTML)"
    )
    assert nameless == []
    page.keyboard.press("Tab")
    seen = set()
    for _ in range(80):
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        page.keyboard.press("Tab")
    assert {"set-rates", "set-steps", "set-budget", "batches-chart", "start-check"} <= seen
