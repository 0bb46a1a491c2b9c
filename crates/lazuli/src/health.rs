//! `lazuli health`: asks a running server whether it is ready, and exits accordingly.
//!
//! Containers without a shell run it as their health check: it opens no data directory, starts no
//! runtime, and speaks just enough HTTP.

use crate::options::AdminChoice;
use anyhow::Result;
use clap::Args;
use lazuli_cli::Exit;
use lazuli_cli::failure::usage;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long one probe may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two probes of `--wait`.
const PAUSE: Duration = Duration::from_millis(50);
/// A response is a line or two; anything longer is not from Lazuli.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

#[derive(Args, Clone, Debug)]
pub(crate) struct HealthArguments {
    /// Ask only whether the process is alive, not whether it is ready
    #[arg(long)]
    live: bool,

    /// Ask again until the server is ready, for at most this long
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u32,

    /// The admin listener of the server [default: LAZULI_ADMIN, or http://127.0.0.1:10003]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// Prints the response, and returns the exit code.
pub(crate) fn run(arguments: &HealthArguments) -> Result<Exit> {
    let url = match &arguments.url {
        Some(url) => url.clone(),
        None => url_of(std::env::var("LAZULI_ADMIN").ok().as_deref())?,
    };
    let authority = Authority::of(&url)?;
    let path = if arguments.live { "/healthz" } else { "/readyz" };
    let deadline = Instant::now() + Duration::from_secs(arguments.wait.into());
    loop {
        let answer = ask(&authority, path);
        if matches!(&answer, Ok(answer) if answer.status == 200) || Instant::now() >= deadline {
            return Ok(report(answer, &url));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a server that is not there announces nothing"
        )]
        std::thread::sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now())));
    }
}

fn report(answer: io::Result<Answer>, url: &str) -> Exit {
    let (exit, text) = match answer {
        Ok(Answer { status: 200, body }) => (Exit::Done, body),
        Ok(Answer { body, .. }) => (Exit::Failed, body),
        Err(error) => (Exit::Unreachable, format!("{url} cannot be reached: {error}\n")),
    };
    let print = match exit {
        Exit::Unreachable => io::stderr().write_all(text.as_bytes()),
        _ => io::stdout().write_all(text.as_bytes()),
    };
    // The exit code reports it too.
    let _ = print;
    exit
}

/// The URL of a server on this machine that runs with the option `admin`.
fn url_of(admin: Option<&str>) -> Result<String> {
    match admin.map_or(Ok(AdminChoice::Auto), str::parse) {
        Ok(AdminChoice::Auto) => Ok(format!("http://127.0.0.1:{}", AdminChoice::PORT)),
        Ok(AdminChoice::At { host, port }) => Ok(match host.as_str() {
            "0.0.0.0" | "[::]" => format!("http://127.0.0.1:{port}"),
            host => format!("http://{host}:{port}"),
        }),
        Ok(AdminChoice::Off) => Err(usage(
            "LAZULI_ADMIN is off, so there is no admin listener to ask",
            "give its address with --url",
        )),
        Err(problem) => Err(usage(
            format!("LAZULI_ADMIN: {problem}"),
            "correct LAZULI_ADMIN, or give the address with --url",
        )),
    }
}

/// Where to connect, and the name to ask for.
#[derive(Debug, PartialEq, Eq)]
struct Authority<'u> {
    text: &'u str,
    host: &'u str,
    port: u16,
}

impl<'u> Authority<'u> {
    fn of(url: &'u str) -> Result<Self> {
        let parse = || {
            let text = url.strip_prefix("http://")?.split('/').next()?;
            // The colons of an IPv6 address are in brackets.
            let (host, port) = match text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'))
            {
                Some((host, port)) => (host, port.parse().ok()?),
                None => (text, 80),
            };
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bare.unwrap_or(host);
            (!host.is_empty()).then_some(Self { text, host, port })
        };
        parse().ok_or_else(|| {
            usage(
                format!("--url '{url}' is not an http:// URL"),
                "give the address of the admin listener, such as http://127.0.0.1:10003",
            )
        })
    }

    /// Connects to the first address of the host that accepts: a name such as localhost may have one on
    /// which nobody listens.
    fn connect(&self) -> io::Result<TcpStream> {
        let mut refused = io::ErrorKind::NotFound.into();
        for address in (self.host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

struct Answer {
    status: u16,
    body: String,
}

fn ask(authority: &Authority<'_>, path: &str) -> io::Result<Answer> {
    let mut stream = authority.connect()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let host = authority.text;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_of_this_machine_is_asked() {
        let url = |admin| url_of(admin).unwrap();
        assert_eq!(url(None), "http://127.0.0.1:10003");
        assert_eq!(url(Some("auto")), "http://127.0.0.1:10003");
        assert_eq!(url(Some("0.0.0.0:7")), "http://127.0.0.1:7");
        assert_eq!(url(Some("[::1]:7")), "http://[::1]:7");
        assert!(url_of(Some("off")).is_err() && url_of(Some("nonsense")).is_err());
    }

    #[test]
    fn answers_and_urls_are_taken_apart() {
        let parts = |url: &'static str| {
            Authority::of(url).map(|found| (found.text, found.host, found.port)).ok()
        };
        assert_eq!(parts("http://localhost:7/x"), Some(("localhost:7", "localhost", 7)));
        assert_eq!(parts("http://[::1]:7"), Some(("[::1]:7", "::1", 7)));
        assert_eq!(parts("http://[::1]"), Some(("[::1]", "::1", 80)));
        assert_eq!(parts("http://db"), Some(("db", "db", 80)));
        for bad in ["https://localhost:7", "localhost:7", "http://", "http://:7", "http://db:70000"]
        {
            assert_eq!(parts(bad), None, "{bad}");
        }
        let answer = parse("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nbody\n").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (503, "body\n"));
        assert!(parse("220 ready").is_none() && parse("HTTP/1.1 x\r\n\r\n").is_none());
    }
}
