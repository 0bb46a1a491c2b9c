//! The attacks, one function each.

use super::{Raw, Seen};
use lazuli_testkit::seed::Seeded;
use std::io;
use std::net::SocketAddr;

/// A way to misuse a connection.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    pub name: &'static str,
    run: fn(SocketAddr, &mut Seeded) -> io::Result<Seen>,
}

impl Attack {
    /// Runs it once. An error means that no connection could be opened.
    pub fn run(&self, address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
        (self.run)(address, random)
    }
}

/// Every attack.
pub const ATTACKS: [Attack; 14] = [
    Attack { name: "odd request lines", run: odd_request_lines },
    Attack { name: "odd headers", run: odd_headers },
    Attack { name: "huge heads", run: huge_heads },
    Attack { name: "byte by byte", run: byte_by_byte },
    Attack { name: "heads without end", run: heads_without_end },
    Attack { name: "lengths that disagree", run: lengths_that_disagree },
    Attack { name: "odd chunks", run: odd_chunks },
    Attack { name: "endless chunks", run: endless_chunks },
    Attack { name: "pipelines", run: pipelines },
    Attack { name: "half-closed", run: half_closed },
    Attack { name: "hang up early", run: hang_up_early },
    Attack { name: "changed requests", run: changed_requests },
    Attack { name: "noise", run: noise },
    Attack { name: "expectations", run: expectations },
];

const HOST: &str = "Host: localhost\r\n";
const PATH: &str = "/devstoreaccount1/Orders()";

/// Sends each text on its own connection, then closes the sending side.
fn each(address: SocketAddr, texts: &[impl AsRef<[u8]>]) -> io::Result<Seen> {
    let mut seen = Seen::default();
    for text in texts {
        let mut raw = Raw::open(address)?;
        raw.send(text.as_ref());
        raw.end();
        seen += raw.answers();
    }
    Ok(seen)
}

fn odd_request_lines(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let lines = [
        "GET",
        "GET /",
        "GET / HTTP/0.9",
        "GET / HTTP/1.0",
        "GET / HTTP/2.0",
        "GET / HTTP/9.9",
        "get / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        "GET  /  HTTP/1.1",
        "GET\t/\tHTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT localhost:1 HTTP/1.1",
        "GET http://[::1 HTTP/1.1",
        "GET http://localhost/devstoreaccount1/Tables HTTP/1.1",
        "GET //////// HTTP/1.1",
        "GET /../../etc/passwd HTTP/1.1",
        "GET /%00%01%ff HTTP/1.1",
        "GET /devstoreaccount1/%F0%9F HTTP/1.1",
        "GET /devstoreaccount1/T(PartitionKey=''''''''' HTTP/1.1",
        "GET /\u{0} HTTP/1.1",
        "GET /? HTTP/1.1",
        "GET /?&&&&==== HTTP/1.1",
        "GET /#fragment HTTP/1.1",
        "PRI * HTTP/2.0\r\n\r\nSM",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}",
    ];
    each(address, &lines.map(|line| format!("{line}\r\n{HOST}\r\n")))
}

fn odd_headers(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let headers = [
        "",
        ": empty",
        "no colon",
        "Name : space before",
        " folded: first",
        "A: b\r\n folded",
        "A: \u{0}",
        "A: \u{7f}",
        "A: \u{e9}\u{1F600}",
        "Host: second",
        "Authorization: ",
        "Authorization: SharedKey",
        "Authorization: SharedKey :",
        "Authorization: Bearer \u{e9}",
        "Authorization: a\r\nAuthorization: b",
        "x-ms-version: ",
        "x-ms-version: 9999-99-99",
        "x-ms-version: \u{e9}",
        "x-ms-date: never",
        "x-ms-client-request-id: \u{e9}",
        "Accept: ;;;,,,q=,*/*;q=NaN",
        "Content-Type: ;=;\"",
        "If-Match: W/\"",
        "X-HTTP-Method: MERGE, PUT",
        "Connection: close, keep-alive, upgrade",
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA",
        "Upgrade: websocket\r\nConnection: Upgrade",
        "Content-Encoding: gzip",
    ];
    each(address, &headers.map(|header| format!("GET {PATH} HTTP/1.1\r\n{HOST}{header}\r\n\r\n")))
}

fn huge_heads(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let long = "a".repeat(1 << 20);
    let many: String = (0..20_000).map(|number| format!("h{number}: v\r\n")).collect();
    each(
        address,
        &[
            format!("GET /{long} HTTP/1.1\r\n{HOST}\r\n"),
            format!("GET /?{} HTTP/1.1\r\n{HOST}\r\n", "a=b&".repeat(1 << 18)),
            format!("GET / HTTP/1.1\r\n{HOST}x: {long}\r\n\r\n"),
            format!("GET / HTTP/1.1\r\n{HOST}{long}: x\r\n\r\n"),
            format!("GET / HTTP/1.1\r\n{HOST}{many}\r\n"),
            format!("{long} / HTTP/1.1\r\n{HOST}\r\n"),
            // No end of line, nor of anything else.
            long,
        ],
    )
}

/// A request that arrives one byte at a time is a request.
fn byte_by_byte(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let request = format!("GET {PATH} HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n");
    let mut raw = Raw::open(address)?;
    for byte in request.bytes() {
        raw.send(&[byte]);
    }
    Ok(raw.answers())
}

/// Heads that never end, a little on each of many connections; none of them is a request.
fn heads_without_end(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    const CONNECTIONS: usize = 100;
    const LINES: usize = 50;
    let mut raws = (0..CONNECTIONS).map(|_| Raw::open(address)).collect::<io::Result<Vec<_>>>()?;
    let first = format!("GET {PATH} HTTP/1.1\r\n{HOST}");
    raws.iter_mut().for_each(|raw| raw.send(first.as_bytes()));
    for line in 0..LINES {
        raws.iter_mut().for_each(|raw| raw.send(format!("x-{line}: y\r\n").as_bytes()));
    }
    Ok(Seen { silent: CONNECTIONS, ..Seen::default() })
}

fn lengths_that_disagree(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let smuggled = "GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let heads = [
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Content-Length: 18446744073709551615",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: 5, 5",
        "Content-Length: 0x10",
        "Content-Length: +5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Content-Length: 4194305",
        "Content-Length: 1073741824",
    ];
    let texts = heads
        .map(|head| format!("POST {PATH} HTTP/1.1\r\n{HOST}{head}\r\n\r\n0\r\n\r\n{smuggled}"));
    each(address, &texts)
}

fn odd_chunks(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(1 << 20));
    let trailers = format!("0\r\n{}\r\n", "t: v\r\n".repeat(100_000));
    let bodies = [
        "x\r\n",
        "-1\r\na",
        "ffffffffffffffff\r\na",
        "fffffffffffffffff\r\na",
        "1\r\nab\r\n0\r\n\r\n",
        "5\r\nab",
        "1\na\n0\n\n",
        "0\r\nx: y",
        "\r\n\r\n\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "00000000000000000000000000000001\r\na\r\n0\r\n\r\n",
        "1;a=b\r\na\r\n0\r\n\r\n",
        extension.as_str(),
        trailers.as_str(),
    ];
    let head = format!("POST {PATH} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
    each(address, &bodies.map(|body| format!("{head}{body}")))
}

/// More than any body may have, in chunks that never end.
fn endless_chunks(address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
    let mut raw = Raw::open(address)?;
    let head = format!("POST {PATH} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
    raw.send(head.as_bytes());
    let size = 1 + random.below(64 * 1024);
    let chunk = format!("{size:x}\r\n{}\r\n", "a".repeat(size));
    for _ in 0..(16 << 20) / size.max(1024) {
        raw.send(chunk.as_bytes());
    }
    Ok(raw.answers())
}

/// Many requests before the first response is read, some of them after a broken one.
fn pipelines(address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
    let one = format!("GET {PATH} HTTP/1.1\r\n{HOST}\r\n");
    let last = format!("GET {PATH} HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n");
    let body = format!("POST {PATH} HTTP/1.1\r\n{HOST}Content-Length: {}\r\n\r\n{one}", one.len());
    let broken = format!("{}garbage\r\n\r\n{}", one.repeat(random.below(50)), one.repeat(10));
    let mut seen = Seen::default();
    for text in [one.repeat(199) + &last, body.repeat(19) + &last, broken] {
        let mut raw = Raw::open(address)?;
        raw.send(text.as_bytes());
        seen += raw.answers();
    }
    // And some whose sender closes its side immediately.
    seen += each(address, &[one.repeat(50), one.repeat(50) + "GET"])?;
    Ok(seen)
}

fn half_closed(address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
    let body = "b".repeat(1000);
    let whole = format!("POST {PATH} HTTP/1.1\r\n{HOST}Content-Length: 1000\r\n\r\n{body}");
    let cuts: Vec<String> =
        (0..8).map(|_| whole.chars().take(random.below(whole.len())).collect()).collect();
    each(address, &cuts)
}

/// Disconnects with the response unread, or with the request half sent.
fn hang_up_early(address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
    let request = format!("GET {PATH} HTTP/1.1\r\n{HOST}\r\n").repeat(50);
    for _ in 0..20 {
        let mut raw = Raw::open(address)?;
        raw.send(request.get(..random.below(request.len())).unwrap_or_default().as_bytes());
    }
    Ok(Seen { silent: 20, ..Seen::default() })
}

/// A request as clients send it, with some bytes changed.
fn changed_requests(address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
    let requests = [
        format!(
            "POST /devstoreaccount1/$batch HTTP/1.1\r\n{HOST}x-ms-version: 2019-02-02\r\n\
             x-ms-date: Thu, 09 Dec 2021 00:23:06 GMT\r\nAuthorization: SharedKey \
             devstoreaccount1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\nContent-Type: \
             multipart/mixed; boundary=b\r\nContent-Length: 11\r\n\r\n--b\r\n--b--\r\n"
        ),
        format!(
            "GET /devstoreaccount1/Orders(PartitionKey='p',RowKey='r')?$select=a&sv=2019-02-02&\
             sig=AAAA&tn=Orders&sp=r&se=2030-01-01 HTTP/1.1\r\n{HOST}Accept: application/json\r\n\
             If-Match: W/\"datetime'2021'\"\r\nConnection: keep-alive\r\n\r\n"
        ),
    ];
    let mut texts = Vec::new();
    for request in requests.iter().cycle().take(16) {
        let mut bytes = request.clone().into_bytes();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            let byte = random.next_u64() as u8;
            match random.below(3) {
                0 => bytes.insert(at, byte),
                1 => drop(bytes.remove(at)),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|place| *place = byte),
            }
        }
        texts.push(bytes);
    }
    each(address, &texts)
}

fn noise(address: SocketAddr, random: &mut Seeded) -> io::Result<Seen> {
    let mut bytes =
        |length: usize| -> Vec<u8> { (0..length).map(|_| random.next_u64() as u8).collect() };
    each(
        address,
        &[bytes(10), bytes(1000), bytes(100_000), vec![b'\r'; 100_000], vec![b'\n'; 100_000]],
    )
}

/// Sends `Expect: 100-continue`, then no body, or too much of one.
fn expectations(address: SocketAddr, _: &mut Seeded) -> io::Result<Seen> {
    let ask = |length: usize, expect: &str| {
        format!(
            "POST {PATH} HTTP/1.1\r\n{HOST}Expect: {expect}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    each(
        address,
        &[
            ask(10, "100-continue"),
            ask(1 << 30, "100-continue"),
            ask(10, "something else"),
            ask(0, "100-continue"),
        ],
    )
}
