"""Files of HTTP servers, and of repositories of a hub, through the cache of objects: every kind of server, redirect, failure and
refusal. The hub is a test server; huggingface_hub's own clients read the same from it."""

import itertools
import os
import random
import sys
import time
from pathlib import Path

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from forward_proxy import ForwardProxy  # noqa: E402
from object_server import Proxy  # noqa: E402
from store_reader import StoreReader  # noqa: E402
from web_server import TOKEN, FileServer, HubServer, made_certificate  # noqa: E402

LARGE = random.Random(1).randbytes(20_000_000)
SMALL = b"some bytes"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = FileServer(tmp_path_factory.mktemp("files"))
    server.put("large.bin", LARGE)
    server.put("small.bin", SMALL)
    server.put("a folder/b+c%d.bin", SMALL)
    server.put("empty.bin", b"")
    server.proxy = Proxy(server.port)
    yield server
    server.proxy.close()
    server.close()


@pytest.fixture
def reader(server, tmp_path):
    reader = StoreReader(tmp_path)
    reader.url = f"http://127.0.0.1:{server.proxy.port}"
    yield reader
    server.proxy.reset()
    server.modes.clear()
    server.requests.clear()


def verify_large(reader, path=None, *options, **how):
    lines, cost = reader.read(path or f"{reader.url}/large.bin", *options, **how)
    assert reader.copies()["large.bin"].read_bytes() == LARGE
    return cost


def test_ranges_in_parallel_and_copies(reader, server):
    cost = verify_large(reader)
    assert cost["bytes"] == len(LARGE) == server.bytes_of("large.bin") and cost["retries"] == 0
    spans = [headers["Range"] for _, path, headers in server.requests if headers["Range"] != "bytes=0-0"]
    assert 1 < len(spans) <= 20  # of at least 1 MiB
    cost = verify_large(reader)
    assert cost["bytes"] == 0 and cost["hits"] >= 1
    assert server.bytes_of("large.bin") == len(LARGE)


def test_other_files(reader):
    paths = [f"{reader.url}/{name}" for name in ("small.bin", "empty.bin", "a folder/b+c%25d.bin")]
    lines, _ = reader.read(*paths)
    assert [line.rsplit(maxsplit=2)[0] for line in lines] == paths
    assert reader.copies()["small.bin"].read_bytes() == SMALL == reader.copies()["b-c-25d.bin"].read_bytes()
    assert reader.copies()["empty.bin"].read_bytes() == b""


@pytest.mark.parametrize("mode", ["ranges", "whole"])
@pytest.mark.parametrize("fault", ["503", "cut", "refuse", (429, "SlowDown"), "stall"])
def test_failed_requests_are_repeated(reader, server, fault, mode):
    server.modes["/large.bin"] = mode
    left = [2]

    def fails(method, path, number):
        left[0] -= number > 0
        return fault if number > 0 and left[0] >= 0 else None

    server.proxy.fault = fails
    assert verify_large(reader, None, "hedge=off")["retries"] >= 1


def test_server_without_ranges(reader, server):
    server.modes["/large.bin"] = "whole"
    cost = verify_large(reader)
    assert cost["bytes"] == len(LARGE) and cost["requests"] == 3  # version, content, version
    assert verify_large(reader)["bytes"] == 0


def test_server_that_stays_away(reader, server):
    server.proxy.fault = lambda method, path, number: "refuse"
    reader.refused(75, f"{reader.url}/small.bin: ", "attempts in", path=f"{reader.url}/small.bin", timeout_ms=500)


def test_encrypted(reader, tmp_path):
    certificate = made_certificate(tmp_path)
    server = FileServer(tmp_path / "files", certificate)
    try:
        server.put("large.bin", LARGE)
        path = f"{server.url}/large.bin"
        reader.refused(78, f"{path}: ", "certificate is not trusted: set SSL_CERT_FILE", path=path)
        trust = {"SSL_CERT_FILE": str(certificate[0])}
        verify_large(reader, path, env=trust)
        # Another name of this host, which is not in the certificate.
        name = path.replace("127.0.0.1", "localhost")
        reader.refused(78, "certificate is not trusted", path=name, env=trust)
        server.modes["/plain.bin"] = (302, f"{reader.url}/small.bin")
        path = f"{server.url}/plain.bin"
        reader.refused(78, "redirects to an address that is not https", path=path, env=trust)
    finally:
        server.close()


def test_redirects(reader, server, tmp_path):
    other = FileServer(tmp_path / "other")
    try:
        other.put("content/large.bin", LARGE)
        server.modes |= {"/moved/large.bin": (302, "../again?x=%2F"), "/again": (307, f"{other.url}/content/large.bin?y=a%2Bb")}
        verify_large(reader, f"{reader.url}/moved/large.bin")
        assert {path for _, path, _ in other.requests} == {"/content/large.bin?y=a%2Bb"}
        # Later ranges are requested from where the first redirect led to.
        assert sum(path.startswith("/moved") for _, path, _ in server.requests) == 2
        # Until that address is not valid any more.
        numbers = itertools.count()
        server.modes["/expires/large.bin"] = (302, lambda: f"{other.url}/content/large.bin?{next(numbers)}")
        other.expires = "/content/large.bin?0"
        assert verify_large(reader, f"{reader.url}/expires/large.bin")["retries"] == 0
        assert next(numbers) >= 3
    finally:
        other.close()


def test_remembered_redirect_to_a_server_that_ended(reader, server):
    """The next attempt begins at the first address."""
    gone = Proxy(server.port)
    gone.fault = lambda method, path, number: "refuse" if number > 0 else None
    addresses = iter([f"http://127.0.0.1:{gone.port}/large.bin"])
    server.modes["/mirrored/large.bin"] = (302, lambda: next(addresses, f"{server.url}/large.bin"))
    try:
        assert verify_large(reader, f"{reader.url}/mirrored/large.bin")["retries"] >= 1
    finally:
        gone.close()


@pytest.mark.parametrize("mode", ["first range", "no ranges"])
def test_server_that_sends_whole_files_instead_of_ranges(reader, server, mode):
    for name in ("large.bin", "small.bin", "empty.bin"):
        server.modes[f"/{name}"] = mode
        reader.read(f"{reader.url}/{name}")
    copies = reader.copies()
    assert [copies[name].read_bytes() for name in ("large.bin", "small.bin", "empty.bin")] == [LARGE, SMALL, b""]


def test_file_without_a_version(reader, server):
    """It may have changed since another process read it."""
    server.modes["/plain.bin"] = "no version"
    for content in (b"first", b"other"):
        server.put("plain.bin", content)
        reader.read(f"{reader.url}/plain.bin", rounds=2)
        assert reader.copies()["plain.bin"].read_bytes() == content


def test_slow_answers(reader, server):
    """Time before the body does not count as its time; and a file that is cut after a long time is requested again."""
    server.modes["/small.bin"] = "slow body"
    assert reader.read(f"{reader.url}/small.bin")[1]["retries"] == 0
    server.put("cut.bin", LARGE[:100_000])
    server.modes["/cut.bin"] = "slow and cut"
    assert reader.read(f"{server.url}/cut.bin", timeout_ms=1000)[1]["retries"] == 1
    assert reader.copies()["cut.bin"].read_bytes() == LARGE[:100_000]


@pytest.mark.parametrize("mode, text", [("slow header", "timed out"), ("large header", "the header of the response exceeds 64 KiB")])
def test_endless_header(reader, server, mode, text):
    server.modes["/small.bin"] = mode
    reader.refused(75, text, "after 1 attempts", path=f"{server.url}/small.bin", timeout_ms=1)


REFUSED = {
    "missing": ("/none.bin", None, "none.bin: no such file"),
    "denied": ("/small.bin", (403, ""), "the server denies access (status 403)"),
    "other status": ("/small.bin", (451, ""), "the server answered with status 451"),
    "loop": ("/loop", (302, "/loop"), "more than 10 redirects"),
    "scheme": ("/small.bin", (302, "ftp://127.0.0.1/x"), "redirects to an address that is not https"),
    "folder": ("/a folder", None, "is a folder, whose files cannot be listed over HTTP; valid: one file, https://host/path"),
    "slash": ("/a folder/", None, "the files of a folder cannot be listed over HTTP; valid: one file"),
    "no path": ("", None, "the files of a folder cannot be listed over HTTP; valid: one file"),
    "sign in": ("/small.bin", (302, "/sign-in?next=x"), "redirects to a web page, perhaps to sign in"),
    "query": ("/small.bin?key=hidden", None, "small.bin?...: a query is not supported"),
    "fragment": ("/small.bin#x", None, "write %23"),
    "no size": ("/small.bin", "chunked", "does not say how large it is"),
    "encoding": ("/small.bin", "gzip", "'Content-Encoding: br', which is not supported"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(reader, server, case):
    path, mode, text = REFUSED[case]
    if mode:
        server.modes[path] = mode
    assert "hidden" not in reader.refused(78, text, path=reader.url + path)


def test_credentials_are_no_part_of_a_path(reader):
    line = reader.refused(78, "credentials do not belong into a path", path=reader.url.replace("//", "//me:hidden@") + "/x")
    assert "hidden" not in line


def test_changed_file(reader, server):
    """Between two runs it is fetched again; while a run reads it, the run ends."""
    for content in (b"first", b"other"):
        server.put("changing.bin", content)
        reader.read(f"{reader.url}/changing.bin")
        assert reader.copies()["changing.bin"].read_bytes() == content
    for mode in ("ranges", "whole", "date", "weak tag"):
        server.put("moving.bin", bytes(20_000_000))
        os.utime(server.directory / "moving.bin", (1_000_000_000, 1_000_000_000))
        server.modes["/moving.bin"] = mode

        def change(method, path, number):
            if number == 1:  # after the version, before the content
                server.put("moving.bin", b"1" * 20_000_000)

        server.proxy.reset()
        server.proxy.fault = change
        line = reader.refused(75, "moving.bin: was changed while the run reads it: restore it, or start again",
                              path=f"{reader.url}/moving.bin")
        assert "attempts" not in line


def test_parquet(reader, server, tmp_path):
    pa.parquet.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), tmp_path / "x.parquet")
    server.put("x.parquet", (tmp_path / "x.parquet").read_bytes())
    lines, _ = reader.read(f"{reader.url}/x.parquet")
    assert lines == [f"{reader.url}/x.parquet rows 3"]


# Repositories of a hub.

FILES = {"README.md": b"# data", ".gitattributes": b"", "data/train-0.bin": LARGE[:9_000_000], "data/train-1.bin": LARGE[:300],
         "data/a+b %.bin": LARGE[:5000], "data/sub/x.bin": LARGE[:40], "other/y.bin": LARGE[:50]}
REPOSITORY = "hf://datasets/me/set"


@pytest.fixture(scope="module")
def running_hub():
    hub = HubServer()
    yield hub
    hub.close()


@pytest.fixture
def hub(running_hub):
    running_hub.repositories.clear()
    running_hub.renamed.clear()
    running_hub.fault = lambda path: None
    running_hub.change_listing = lambda files, headers: None
    running_hub.requests.clear()
    running_hub.content.requests.clear()
    running_hub.first = running_hub.push("me/set", FILES)
    return running_hub


def read_hub(reader, hub, *paths, token="", **how):
    """The checksums by path, and the commits."""
    lines, cost = reader.read(f"hub={hub.url},{token}", *paths, **how)
    commits = {line.split()[0]: line.split()[2] for line in lines if " commit " in line}
    return {line.rsplit(maxsplit=2)[0]: line.split()[-2] for line in lines if " commit " not in line}, commits, cost


def refused_hub(reader, hub, code, *texts, path, token="", **how):
    ended = reader.finish(reader.start(f"hub={hub.url},{token}", path, **how))
    assert ended[0] == code and ended[2].count("\n") == 1 and all(text in ended[2] for text in texts), ended
    assert not token or token not in ended[1] + ended[2]


def test_files_as_the_client_of_the_hub_reads_them(reader, hub, tmp_path, monkeypatch):
    """The same names and bytes, of a listing with pages, of small files, and of large ones on another server."""
    files = huggingface_hub.HfFileSystem(endpoint=hub.url, token=TOKEN, skip_instance_cache=True)
    names = sorted(path.removeprefix("datasets/me/set/") for path in files.find("datasets/me/set"))
    assert names == sorted(FILES)
    assert all(files.cat_file(f"datasets/me/set/{name}") == content for name, content in FILES.items())
    downloaded = huggingface_hub.hf_hub_download("me/set", "data/train-0.bin", repo_type="dataset", endpoint=hub.url,
                                                 cache_dir=tmp_path / "hub", token=TOKEN)
    assert Path(downloaded).read_bytes() == FILES["data/train-0.bin"]

    found, commits, _ = read_hub(reader, hub, REPOSITORY, token=TOKEN)
    assert list(found) == [f"{REPOSITORY}/{name}" for name in sorted(FILES)]
    assert commits == {REPOSITORY: hub.first}
    copies = sorted(path.read_bytes() for path in reader.copies().values())
    assert copies == sorted(FILES.values())


def test_folders_and_single_files(reader, hub):
    found, _, _ = read_hub(reader, hub, f"{REPOSITORY}/data/sub", f"{REPOSITORY}/other/y.bin", f"{REPOSITORY}/data/a+b %.bin")
    assert list(found) == [f"{REPOSITORY}/data/sub/x.bin", f"{REPOSITORY}/other/y.bin", f"{REPOSITORY}/data/a+b %.bin"]


def test_token_is_sent_to_the_hub_only(reader, hub):
    hub.push("me/set", FILES, private=True)
    read_hub(reader, hub, f"{REPOSITORY}/data", token=TOKEN)
    assert all(headers["Authorization"] == f"Bearer {TOKEN}" for _, _, headers in hub.requests)
    assert hub.content.requests and not any("Authorization" in headers for _, _, headers in hub.content.requests)


def test_revisions(reader, hub, tmp_path):
    old = hub.first
    new = hub.push("me/set", {"data/x.bin": b"new"})
    hub.push("me/set", {"data/x.bin": b"of v1"}, ref="v1")
    hub.push("me/set", {"data/x.bin": b"of a request"}, ref="refs/pr/3")
    for i, (revision, content) in enumerate({"v1": b"of v1", "refs/pr/3": b"of a request", "refs%2Fpr%2F3": b"of a request",
                                             "main": b"new", new: b"new"}.items()):
        path = f"{REPOSITORY}@{revision}/data/x.bin"
        fresh = StoreReader(tmp_path / f"{i}")
        assert list(read_hub(fresh, hub, path)[0]) == [path]
        assert [copy.read_bytes() for copy in fresh.copies().values()] == [content], revision
    found, commits, _ = read_hub(reader, hub, f"{REPOSITORY}@{old}/data/train-1.bin")
    assert len(found) == 1 and commits == {f"{REPOSITORY}@{old}": old}


def test_renamed_repository(reader, hub):
    """Its old name is a redirect, also of what is not fetched again."""
    hub.renamed["old/set"] = "me/set"
    for changes, fetched in (({}, 9_005_340), ({"data/train-0.bin": b"other" * 1_800_000}, 9_000_000)):
        hub.push("me/set", FILES | changes)
        found, _, cost = read_hub(reader, hub, "hf://datasets/old/set/data", token=TOKEN)
        assert len(found) == 4 and cost["bytes"] == fetched


def test_commit_is_kept_while_the_branch_moves(reader, hub):
    """All files are those of the first commit, though another one is pushed after the listing."""
    pushed = []

    def push(path):
        if "/resolve/" in path and not pushed:
            pushed.append(hub.push("me/set", {name: b"other" for name in FILES}))

    hub.fault = push
    found, commits, _ = read_hub(reader, hub, f"{REPOSITORY}/data")
    assert pushed and commits == {REPOSITORY: hub.first} and len(found) == 4
    assert b"other" not in [path.read_bytes() for path in reader.copies().values()]
    # What has not changed is not fetched again, under another commit.
    hub.push("me/set", FILES | {"new.bin": b"new"})
    assert read_hub(reader, hub, f"{REPOSITORY}/data/train-0.bin")[2]["bytes"] == 0


def test_hub_that_is_busy(reader, hub):
    answers = iter([429, 503, None, 500, None, 429])
    hub.fault = lambda path: next(answers, None)
    _, _, cost = read_hub(reader, hub, f"{REPOSITORY}/data")
    assert cost["retries"] == 4


BAD_LISTINGS = {
    "other prefix": (lambda files, headers: files.append({"type": "file", "path": "x.parquet", "size": 1}), "it contains 'x.parquet'"),
    "outside": (lambda files, headers: files.append({"type": "file", "path": "data/../x", "size": 1}), "it contains 'data/../x'"),
    "same page": (lambda files, headers: headers.update(Link='<?recursive=true&limit=1000>; rel="next"'), "its next page has no address"),
    "no address": (lambda files, headers: headers.update(Link='<ftp://x/y>; rel="next"'), "its next page has no address"),
    "other server": (lambda files, headers: headers.update(Link='<http://127.0.0.1:1/x>; rel="next"'), "its next page is on another server"),
    "no JSON of a hub": (lambda files, headers: files.append("x"), "not the JSON of a hub"),
}


@pytest.mark.parametrize("case", BAD_LISTINGS)
def test_listing_that_is_not_valid(reader, hub, case):
    hub.change_listing, text = BAD_LISTINGS[case]
    refused_hub(reader, hub, 75, f"{REPOSITORY}/data: the server's listing is not valid: {text}", path=f"{REPOSITORY}/data")


def test_endpoint_that_would_show_a_secret(reader, hub):
    for url, token, text in ((hub.url.replace("//", "//me:hidden@"), "", "HF_ENDPOINT: a user, '?' and '#' are not part"),
                             (f"{hub.url}?key=hidden", "", "HF_ENDPOINT: a user, '?' and '#' are not part"),
                             ("http://hub.invalid", "hidden", "http://hub.invalid is not encrypted, so the token from HF_TOKEN"),
                             ("http://127.0.0.1.invalid", "hidden", "http://127.0.0.1.invalid is not encrypted, so the token from HF_TOKEN")):
        code, out, err = reader.finish(reader.start(f"hub={url},{token}", REPOSITORY))
        assert code == 78 and text in err and "hidden" not in out + err, err


HUB_REFUSED = {
    "repository": (f"{REPOSITORY}s", "", "hf://datasets/me/sets: no such repository, or it is private; there is no token: set HF_TOKEN"),
    "repository with a token": (f"{REPOSITORY}s", TOKEN, "no such repository, or it is private; the token is that from HF_TOKEN"),
    "revision": (f"{REPOSITORY}@v9/data", "", "no such revision"),
    "folder": (f"{REPOSITORY}/dat", "", "no such object, and no objects below this prefix; did you mean 'hf://datasets/me/set/data'?"),
    "gated": ("hf://datasets/me/gated", "", "the repository is gated: accept its terms at http://127.0.0.1"),
    "terms": ("hf://datasets/me/terms", TOKEN, "/datasets/me/terms; the token is that from HF_TOKEN"),
    "token": (REPOSITORY, "hf_wrong", "the token from HF_TOKEN is not valid"),
    "no token": (REPOSITORY, "two words", "HF_TOKEN: not a token"),
    "model": ("hf://me/model/x.bin", "", "not in a dataset repository; valid: hf://datasets/OWNER/NAME/path"),
    "owner": ("hf://datasets/set", "", "owner or name is missing"),
    "empty revision": ("hf://datasets/me/set@/x", "", "the revision after '@' is empty"),
}


@pytest.mark.parametrize("case", HUB_REFUSED)
def test_refused_by_hub(reader, hub, case):
    path, token, text = HUB_REFUSED[case]
    hub.push("me/gated", FILES, gated="accepted")
    hub.push("me/terms", FILES, gated="not accepted")
    refused_hub(reader, hub, 78, text, path=path, token=token)


@pytest.fixture
def proxy():
    proxy = ForwardProxy("ada:p@ss")
    yield proxy
    proxy.close()


def through(proxy, user="ada:p%40ss@", excluded=""):
    url = f"http://{user}127.0.0.1:{proxy.port}"
    return f"proxies={url},{url},{excluded}"


def test_through_a_proxy(reader, server, proxy):
    """That knows the host: it is not resolved here. The server does not get the password of the proxy."""
    server.requests.clear()
    lines, cost = reader.read(through(proxy), f"http://files.test:{server.port}/large.bin")
    assert reader.copies()["large.bin"].read_bytes() == LARGE and cost["retries"] == 0
    assert {(method, target) for method, target, _ in proxy.requests} == {("GET", f"http://files.test:{server.port}/large.bin")}
    assert len(server.requests) == len(proxy.requests)
    assert not any("roxy-" in name for _, _, headers in server.requests for name in headers)
    assert {headers["Host"] for _, _, headers in server.requests} == {f"files.test:{server.port}"}
    before = len(proxy.requests)
    reader.read(through(proxy, excluded="other.test, .0.0.1, 127.0.0.0/8"), f"http://127.0.0.1:{server.port}/small.bin")
    assert len(proxy.requests) == before


def test_through_a_proxy_with_a_password_only(reader, server):
    """As curl: the user is empty."""
    proxy = ForwardProxy(":secret")
    try:
        reader.read(through(proxy, user=":secret@"), f"http://files.test:{server.port}/small.bin")
    finally:
        proxy.close()


def test_encrypted_through_a_proxy(reader, proxy, tmp_path):
    certificate = made_certificate(tmp_path)
    server = FileServer(tmp_path / "files", certificate)
    try:
        server.put("large.bin", LARGE)
        path = f"{server.url}/large.bin"
        lines, cost = reader.read(through(proxy), path, env={"SSL_CERT_FILE": str(certificate[0])})
        assert reader.copies()["large.bin"].read_bytes() == LARGE and cost["retries"] == 0
        assert {(method, target) for method, target, _ in proxy.requests} == {("CONNECT", f"127.0.0.1:{server.port}")}
        assert not any("roxy" in name for _, _, headers in server.requests for name in headers)
        server.put("other.bin", SMALL)
        for setting, code, text in ((through(proxy, user=""), 78, "refuses to connect to it (status 407): it needs a user"),
                                    (through(proxy, user="ada:wrong@"), 78, "(status 407)"),
                                    ("proxies=,socks5://secret@127.0.0.1:1,", 78, "HTTPS_PROXY or ALL_PROXY: not a proxy with http"),
                                    ("proxies=,http://127.0.0.1:1,", 75, "cannot connect to the proxy http://127.0.0.1:1")):
            code_of, _, err = reader.finish(reader.start(setting, f"{server.url}/other.bin", timeout_ms=500))
            assert code_of == code and text in err and err.count("\n") == 1 and "secret" not in err and "wrong" not in err, err
        proxy.status = 503
        reader.finish(reader.start(through(proxy), f"{server.url}/other.bin", timeout_ms=500))
    finally:
        server.close()


def test_retry_after_is_respected_up_to_the_timeout(reader, server):
    server.modes["/small.bin"] = (503, None, {"Retry-After": "2"}, 1)
    begin = time.monotonic()
    _, cost = reader.read(f"{reader.url}/small.bin")
    assert cost["retries"] == 1 and time.monotonic() - begin >= 2
    server.modes["/empty.bin"] = (429, None, {"Retry-After": "100000"}, 100)
    reader.refused(75, "requests a pause of 60 s, which is longer than the timeout", path=f"{reader.url}/empty.bin", timeout_ms=2000)
