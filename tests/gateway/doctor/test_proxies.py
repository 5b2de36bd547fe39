"""nginx, HAProxy and load balancers in front of the gateway."""

from pathlib import PurePosixPath

import pytest

from fleet.finding import UnreadableError
from gateway.doctor.haproxy_file import haproxy_seconds, sections
from gateway.doctor.nginx_file import Including, NginxFile, nginx_seconds, parsed
from tests.gateway.doctor.judging import judged_files, rules

GOOD = "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off;"
LONG = "proxy_read_timeout 15m;"
NAMED, UNNAMED = (f"proxy_set_header x-request-ID {value};" for value in ("$request_id", "''"))


def nginx(location: str, server: str = "", http: str = "", path: str = "/v1/") -> list[str]:
    block = f"location {path} {{ proxy_pass http://gw; {location} }}"
    text = f"http {{ {http} server {{ {server} {block} }} }} worker_shutdown_timeout 1h;"
    return rules(nginx_conf=text.replace(" server {", "\nserver {"))


@pytest.mark.parametrize(
    ("location", "server", "expected"),
    [
        (GOOD + LONG, "", []),
        ("", GOOD + LONG, []),
        (LONG, GOOD, []),
        (GOOD, "", ["idle-whole"]),
        (GOOD + "proxy_read_timeout 15;", "", ["idle-timeout"]),
        (GOOD + "proxy_read_timeout 15001ms;", "", ["idle-whole"]),
        (GOOD + "proxy_read_timeout $t;", "", []),
        (GOOD + LONG + "proxy_set_header Host $host;", GOOD, []),
        (LONG + "proxy_set_header Host $host;", GOOD, ["http-close"]),
        (GOOD + LONG + "proxy_next_upstream error non_idempotent;", "", ["retry-post"]),
        (GOOD + LONG + "proxy_next_upstream http_503 http_429 non_idempotent;", "", []),
        (GOOD + LONG + NAMED + "proxy_next_upstream error http_503 non_idempotent;", "", []),
        (GOOD + LONG + UNNAMED + "proxy_next_upstream error non_idempotent;", "", ["retry-post"]),
        (GOOD + LONG + "proxy_next_upstream error timeout http_502;", "", []),
        (GOOD + LONG, "gzip on; gzip_types text/css;", []),
        (GOOD + LONG, "gzip on; gzip_types *;", ["gzip-events"]),
        (GOOD + LONG, "gzip_types text/event-stream;", []),
        (GOOD + LONG, "proxy_ignore_headers X-Accel-Buffering;", []),
        ("proxy_http_version 1.0;" + LONG, GOOD, ["http-version"]),
    ],
)
def test_a_location_is_judged_by_what_it_says_and_inherits(
    location: str, server: str, expected: list[str]
) -> None:
    assert nginx(location, server) == expected


@pytest.mark.parametrize(
    ("path", "target", "known"),
    [
        ("/v1/chat", "http://a", True),
        ("~ ^/v1/", "http://a", True),
        ("/", "http://vllm:8000", True),
        ("/", "http://my-gateway-for-vllm", True),
        ("/", "http://named", True),
        ("/", "http://other", False),
        ("/", "$target", False),
    ],
)
def test_a_location_is_ours_by_its_path_or_its_upstream(
    path: str, target: str, *, known: bool
) -> None:
    text = "upstream named { server vllm-a:8000; }\nserver { location PATH { proxy_pass TO; } }"
    found = rules(a_conf=text.replace("PATH", path).replace("TO", target))
    assert ("target-unknown" not in found) == known


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ("server a:1;", []),
        ("server a:1 max_fails=0; server b:1 weight=2 max_fails=0;", []),
        ("server a:1 max_fails=0; server b:1;", ["max-fails"]),
        ("server a:1 max_fails=1 fail_timeout=1s; server b:1 max_fails=0;", ["max-fails"]),
        ("server a:1; keepalive 8; keepalive_timeout 674s;", []),
        ("server a:1; keepalive 8; keepalive_timeout 675s;", ["idle-reuse"]),
        ("server a:1; keepalive_timeout $t;", []),
    ],
)
def test_an_upstream_is_judged_by_its_servers(upstream: str, expected: list[str]) -> None:
    assert nginx(GOOD + LONG, http=f"upstream gw {{ {upstream} }}") == expected


def test_an_include_is_put_where_it_stands() -> None:
    files = [
        NginxFile(name, PurePosixPath("/srv", name), parsed(name, text))
        for name, text in {
            "nginx.conf": "http { include /etc/nginx/conf.d/*.conf; include snippets/none; }",
            "conf.d/a.conf": "include snippets/b;\nproxy_buffering off;",
            "conf.d/deep/c.conf": "never on;",
            "snippets/b": "gzip on;",
        }.items()
    ]
    including = Including(files)
    (http,) = including.whole(files[0])
    told = [(each.file, each.line, each.name) for each in http.inner]
    assert told == [("snippets/b", 1, "gzip"), ("conf.d/a.conf", 2, "proxy_buffering")]
    assert [each.args for each in including.missing] == [("snippets/none",)]


def test_files_that_include_each_other_end() -> None:
    text = "include *.conf;\n" * 50
    assert isinstance(judged_files({f"{name}.conf": text for name in "abcdefgh"}), tuple)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("server { a b; ", 'is not nginx\'s configuration: unexpected end of file, expecting "}"'),
        ("server { a b; } }", 'is not nginx\'s configuration: unexpected "}"'),
        ("server { } a b", "is not nginx's configuration: it ends amid a directive"),
        ("a {" * 40 + "}" * 40, "is nested more than 30 levels deep"),
        ("a {" * 5000 + "}" * 5000, "is not nginx's configuration: it is nested too deeply"),
    ],
)
def test_what_is_no_configuration_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        parsed("a.conf", text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1h", 3600),
        ("", None),
        ("$t", None),
        ("1x", None),
    ],
)
def test_a_time_of_nginx_is_read(text: str, seconds: float | None) -> None:
    assert nginx_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("30000", 30), ("5m", 300), ("250us", 0.00025), ("x", None), ("1m30s", None)],
)
def test_a_time_of_haproxy_is_read(text: str, seconds: float | None) -> None:
    assert haproxy_seconds(text) == seconds


def test_a_section_has_what_its_defaults_say() -> None:
    text = """
defaults base
  mode http   # as all
  option httpclose
backend a
  timeout server 1s
defaults other from base
  mode tcp
backend b from base
  no option httpclose
backend c
  option "broken
"""
    *_, a, _, b, c = sections(text)
    modes = [line.words for each in (a, b, c) if (line := each.last("mode"))]
    assert modes == [("mode", "http"), ("mode", "http"), ("mode", "tcp")]
    assert [each.option("httpclose") is not None for each in (a, b, c)] == [True, False, True]


def haproxy(*lines: str) -> list[str]:
    text = "backend vllm\n option abortonclose\n option httpchk GET /-/ready\n timeout server 15m\n"
    return rules(haproxy_cfg=text + "".join(f" {line}\n" for line in lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["server a h:1 check inter 2500 fall 2"], []),
        (["server a h:1 check inter 2501 fall 2"], ["check-slow"]),
        (["server a h:1 check inter 3s fastinter 1s fall 3"], []),
        (["default-server check inter 1s", "server a h:1", "server b h:2 fall 6"], ["check-slow"]),
        (["default-server check inter 1s", "server a h:1 no-check"], ["check-ready"]),
        (["server a h:1"], ["check-ready"]),
        (["server a h:1 track b/c"], []),
        (["server-template a 3 h:1 check inter 1s"], []),
        (["option httpchk", "server a h:1 check inter 1s"], ["check-ready"]),
        (["retry-on 503 conn-failure", "server a h:1 check inter 1s"], []),
        (["retry-on 502", "server a h:1 check inter 1s"], ["retry-post"]),
        (
            ["retry-on 502", "http-request disable-l7-retry", "server a h:1 check inter 1s"],
            [],
        ),
        (["timeout server 15000", "server a h:1 check inter 1s"], ["idle-timeout"]),
        (["mode tcp", "timeout tunnel 16s", "server a h:1 check inter 1s"], ["idle-whole"]),
        (["timeout tunnel 1s", "server a h:1 check inter 1s"], []),
        (["option http-server-close", "server a h:1 check inter 1s"], ["http-close"]),
        (["server"], ["check-ready"]),
    ],
)
def test_a_backend_is_judged(lines: list[str], expected: list[str]) -> None:
    assert haproxy(*lines) == expected


TARGETS = "alb.ingress.kubernetes.io/target-group-attributes"
INGRESS = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, annotations: {ANNOTATIONS}}
spec: {ingressClassName: CLASS, defaultBackend: {service: {name: vllm-gateway}}}
"""


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        ("alb", "", ["idle-whole"]),
        ("alb", "alb.ingress.kubernetes.io/group.name: g", []),
        ("x", "alb.ingress.kubernetes.io/load-balancer-attributes: junk", ["idle-whole"]),
        (
            "x",
            f"{TARGETS}: 'deregistration_delay.timeout_seconds=59,a={{b}}'",
            ["deregistration", "idle-whole"],
        ),
        ("nginx", "", ["idle-whole"]),
        ("x", "nginx.org/proxy-read-timeout: 15m", ["buffering-default"]),
        ("x", "nginx.org/proxy-read-timeout: 15m, nginx.org/proxy-buffering: 'false'", []),
        ("traefik", "", []),
    ],
)
def test_an_ingress_is_judged_by_its_controllers_annotations(
    kind: str, annotations: str, expected: list[str]
) -> None:
    text = INGRESS.replace("ANNOTATIONS", annotations).replace("CLASS", kind)
    assert sorted(rules(a_yaml=text)) == expected


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        ("", "type: LoadBalancer", []),
        ("", "type: ClusterIP", []),
        ("", "type: LoadBalancer, loadBalancerClass: service.k8s.aws/nlb", ["idle-whole"]),
        ("service.beta.kubernetes.io/aws-load-balancer-internal: 'true'", "type: LoadBalancer",
         ["idle-whole"]),
        ("service.beta.kubernetes.io/aws-load-balancer-connection-idle-timeout: '10'",
         "type: LoadBalancer", ["idle-timeout"]),
        ("service.beta.kubernetes.io/aws-load-balancer-connection-idle-timeout: '3600'",
         "type: LoadBalancer", []),
    ],
)  # fmt: skip
def test_a_load_balancer_of_aws_is_judged(annotations: str, spec: str, expected: list[str]) -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: vllm-gateway, annotations: {%s}}\n"
    assert rules(a_yaml=(text % annotations) + f"spec: {{{spec}}}\n") == expected


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.conf", "server { a b; }\n" * 10_001, "has more than 20000 directives"),
        ("a.cfg", "backend a\n" * 20_001, "has more than 20000 lines"),
        ("a.cfg", "defaults\n" + " mode tcp\n" * 201, "has more than 200 lines of defaults"),
    ],
)
def test_what_would_take_too_long_is_one_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        judged_files({name: text})
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("seconds", "expected"), [(60, []), (59, ["proxy-shutdown"])])
def test_a_proxy_has_the_window_and_need_not_have_more(seconds: int, expected: list[str]) -> None:
    text = f"worker_shutdown_timeout {seconds};\nserver {{ {GOOD} {LONG} location /v1 {{\n"
    assert rules(a_conf=text + "proxy_pass http://a; } }\n") == expected


@pytest.mark.parametrize(("seconds", "expected"), [(674, []), (675, ["idle-reuse"])])
def test_an_alb_closes_idle_connections_first(seconds: int, expected: list[str]) -> None:
    idle = "alb.ingress.kubernetes.io/load-balancer-attributes"
    said = f"{idle}: idle_timeout.timeout_seconds={seconds}"
    assert rules(a_yaml=INGRESS.replace("ANNOTATIONS", said).replace("CLASS", "alb")) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(60, []), (59, ["deregistration"])])
def test_a_target_group_has_the_window(seconds: int, expected: list[str]) -> None:
    idle = "alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds=660"
    delay = f"{TARGETS}: deregistration_delay.timeout_seconds={seconds}"
    text = INGRESS.replace("ANNOTATIONS", f"{idle}, {delay}").replace("CLASS", "alb")
    assert rules(a_yaml=text) == expected
