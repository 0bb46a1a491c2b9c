//! The limits: servers that do as little as possible behind the same HTTP front.
//!
//! Both run as separate processes, with Lazuli's runtime, allocator and hyper settings, and send
//! its recorded responses byte for byte. They check nothing. What a measured server uses beyond
//! them is the price of its work.

mod log;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lazuli_server::ListenOptions;
use log::Log;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

/// Roles in which the benchmark starts this program: a limit, or a launcher of another program.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Limit {
    /// Send a recorded response to every request
    #[command(hide = true)]
    BareHttp { answer: PathBuf },
    /// Append every body to a log, sync it, then send a recorded response
    #[command(hide = true)]
    BareLog {
        log: PathBuf,
        insert: PathBuf,
        insert_bytes: usize,
        batch: PathBuf,
        batch_bytes: usize,
    },
    /// Be a client, and print what its work took
    #[command(hide = true)]
    Client(crate::client::Arguments),
    /// Become another program, which then ends with the one that started it
    #[command(hide = true)]
    Follow {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// The text that a limit prints before its address, once it listens.
pub(crate) const LISTENING: &str = "listening on ";

impl Limit {
    /// Serves until a signal, or until its parent process ends.
    pub(crate) fn serve(self) -> Result<()> {
        let end = rustix::process::Signal::KILL;
        rustix::process::set_parent_process_death_signal(Some(end)).context("follow the parent")?;
        if let Self::Client(arguments) = self {
            return arguments.run();
        }
        let front = Arc::new(self.front()?);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut end = signal(SignalKind::terminate())?;
            tokio::select! {
                outcome = listen(front) => outcome,
                _ = end.recv() => Ok(()),
            }
        })
    }

    fn front(self) -> Result<Front> {
        match self {
            Self::BareHttp { answer } => Ok(Front::Http(Recorded::read(&answer)?)),
            Self::BareLog { log, insert, insert_bytes, batch, batch_bytes } => Ok(Front::Log {
                log: Log::create(&log)?,
                insert: (Recorded::read(&insert)?, insert_bytes),
                batch: (Recorded::read(&batch)?, batch_bytes),
            }),
            Self::Client(_) => bail!("a client serves nothing"),
            // Returns only when it fails; the signal stays with the process.
            Self::Follow { program, arguments } => {
                Err(Command::new(&program).args(arguments).exec())
                    .with_context(|| format!("become {}", program.display()))
            }
        }
    }
}

enum Front {
    Http(Recorded),
    /// The responses to an insert and to a batch, each with the number of bytes to log.
    Log {
        log: Log,
        insert: (Recorded, usize),
        batch: (Recorded, usize),
    },
}

impl Front {
    async fn handle(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
        let (log, (recorded, logged_bytes)) = match self {
            Self::Http(recorded) => return Ok(recorded.response()),
            Self::Log { log, batch, .. } if request.uri().path().ends_with("$batch") => {
                (log, batch)
            }
            Self::Log { log, insert, .. } => (log, insert),
        };
        let mut frames = Vec::new();
        let mut left = *logged_bytes;
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            if let Ok(mut data) = frame?.into_data() {
                data.truncate(left);
                left -= data.len();
                frames.push(data);
            }
        }
        log.append(frames).await?;
        Ok(recorded.response())
    }
}

/// A response recorded from a server.
struct Recorded {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Recorded {
    fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&bytes).with_context(|| format!("read {} as an answer", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(body) = response.parse(bytes)? else {
            return Err(anyhow!("the head is not complete"));
        };
        let mut map = HeaderMap::with_capacity(16);
        for header in response.headers {
            map.insert(
                HeaderName::from_bytes(header.name.as_bytes())?,
                HeaderValue::from_bytes(header.value)?,
            );
        }
        let status = StatusCode::from_u16(response.code.unwrap_or_default())?;
        // hyper writes these itself, except the length of no content.
        map.remove(header::DATE);
        if status != StatusCode::NO_CONTENT {
            map.remove(header::CONTENT_LENGTH);
        }
        Ok(Self {
            status,
            headers: map,
            body: Bytes::copy_from_slice(bytes.get(body..).unwrap_or_default()),
        })
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

#[expect(clippy::print_stdout, reason = "the benchmark waits for this line")]
async fn listen(front: Arc<Front>) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    println!("{LISTENING}{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection")?;
        tokio::spawn(serve_connection(stream, front.clone()));
    }
}

/// Serves a connection like Lazuli.
async fn serve_connection(stream: TcpStream, front: Arc<Front>) {
    let _ = stream.set_nodelay(true);
    let options = ListenOptions::default();
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { front.handle(request).await }
    });
    let connection = options.http1().serve_connection(TokioIo::new(stream), service);
    // The client counts a connection that breaks as an error.
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_answer_is_given_again_without_what_hyper_adds() {
        let text = "HTTP/1.1 202 Accepted\r\ncontent-type: a/b\r\ncontent-length: 2\r\n\
                    date: Sun, 15 Nov 2026 00:00:00 GMT\r\n\r\nok";
        let response = Recorded::parse(text.as_bytes()).unwrap().response();
        assert_eq!(response.status(), 202);
        assert_eq!(response.headers().len(), 1);
        assert_eq!(response.headers()["content-type"], "a/b");
    }
}
