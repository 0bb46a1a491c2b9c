use super::*;
use crate::readiness::Reason;
use lazuli_model::SystemClock;
use std::io::{Read, Write};

struct Running {
    admin: Admin,
    readiness: Arc<Readiness>,
}

fn start(tokens: Option<Arc<Tokens>>) -> Running {
    let readiness = Arc::new(Readiness::new(Arc::new(SystemClock)));
    let metrics = Arc::new(Metrics::default());
    metrics.add(readiness.clone());
    let options = AdminOptions {
        names: Vec::new(),
        tls: None,
        tokens,
        readiness: readiness.clone(),
        metrics,
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    Running { admin: Admin::start(listener, options, async {}).unwrap(), readiness }
}

impl Running {
    /// Sends the head of a request and returns the response.
    fn send(&self, head: &str) -> String {
        let mut stream = std::net::TcpStream::connect(self.admin.address()).unwrap();
        stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost"))
    }

    #[track_caller]
    fn check(&self, head: &str, status: u16, part: &str) {
        let answer = self.send(head);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains(part), "{answer}");
        let lower = answer.to_ascii_lowercase();
        assert!(lower.contains("cache-control: no-store\r\n"), "{answer}");
        assert!(!lower.contains("access-control-"), "{answer}");
    }
}

#[test]
fn a_server_that_starts_is_alive_and_not_ready() {
    let server = start(None);
    assert!(server.get("/healthz").ends_with("\r\n\r\nok\n"));
    server.check("GET /readyz HTTP/1.1\r\nHost: localhost", 503, r#""code":"starting""#);
    server.readiness.set(Reason::Starting, None);
    server.check("GET /readyz HTTP/1.1\r\nHost: localhost", 200, r#"{"ready":true,"reasons":[]}"#);
    server.check("GET /metrics HTTP/1.1\r\nHost: localhost", 200, "\nlazuli_ready 1\n");
}

#[test]
fn every_reason_makes_a_server_not_ready() {
    use lazuli_meter::Label;
    let server = start(None);
    server.readiness.set(Reason::Starting, None);
    for reason in Reason::ALL {
        server.readiness.set(*reason, Some("a detail".to_owned()));
        let part = format!(r#"[{{"code":"{}","since":"20"#, reason.name());
        server.check("GET /readyz HTTP/1.1\r\nHost: localhost", 503, &part);
        server.check("GET /metrics HTTP/1.1\r\nHost: localhost", 200, "\nlazuli_ready 0\n");
        server.readiness.set(*reason, None);
    }
    server.check("GET /readyz HTTP/1.1\r\nHost: localhost", 200, "");
}

#[test]
fn what_a_page_could_send_is_refused() {
    let server = start(None);
    server.check("GET /metrics HTTP/1.1\r\nHost: evil.test", 421, "--admin-name");
    let foreign = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.test";
    server.check(foreign, 403, "other sites");
    server.check("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0", 405, "GET");
    server.check("GET /admin HTTP/1.1\r\nHost: localhost", 404, "NotFound");
}

#[test]
fn metrics_need_a_token_where_one_is_set() {
    let tokens = Arc::new(Tokens::default());
    let server = start(Some(tokens.clone()));
    let head = "GET /metrics HTTP/1.1\r\nHost: localhost";
    server.check(head, 401, "Authorization: Bearer");
    tokens.replace(vec!["secret".to_owned()]);
    server.check(head, 401, "Authorization: Bearer");
    server.check(&format!("{head}\r\nAuthorization: Bearer secret"), 200, "lazuli_ready");
    server.check("GET /healthz HTTP/1.1\r\nHost: localhost", 200, "ok");
}

#[test]
fn the_form_of_metrics_is_negotiated() {
    let server = start(None);
    let plain = "content-type: text/plain; version=0.0.4";
    server.check("GET /metrics HTTP/1.1\r\nHost: localhost", 200, plain);
    let accept = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text";
    server.check(accept, 200, "# EOF\n");
}

#[test]
fn connections_beyond_the_bound_wait_and_are_served() {
    let server = start(None);
    let idle: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| std::net::TcpStream::connect(server.admin.address()).unwrap())
        .collect();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.get("/healthz"));
        drop(idle);
        assert!(waiting.join().unwrap().ends_with("ok\n"));
    });
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let server = start(None);
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(20_000));
    let answer = server.send(&head);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}
