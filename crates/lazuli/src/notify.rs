//! Reports the state of the service to systemd (`sd_notify`), if systemd asked for that.
//!
//! The protocol is one datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names: a
//! path, or an abstract name after `@`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The connection to the service manager. Without one, nothing is sent.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often the manager expects a watchdog message.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Configured by the environment of this process.
    pub(crate) fn from_environment() -> Self {
        let text = |name| std::env::var(name).ok();
        let is_for_us =
            text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let interval = text("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        let watchdog = interval.filter(|_| is_for_us).map(Duration::from_micros);
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(name) => Self::to(&name, watchdog).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot notify the service manager");
                Self::default()
            }),
            None => Self::default(),
        }
    }

    fn to(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A stuck manager must not stop the server.
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some((socket, address)), watchdog })
    }

    /// Reports that requests are served.
    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=serving");
    }

    /// Reports the current activity, for `systemctl status`.
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// Configuration is being reloaded; [`ready`](Self::ready) follows.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=draining");
    }

    /// Sends watchdog messages, twice as often as required, while this task runs.
    pub(crate) async fn keep_alive(&self) {
        let Some(interval) = self.watchdog.filter(|interval| !interval.is_zero()) else { return };
        loop {
            self.send("WATCHDOG=1");
            tokio::time::sleep(interval / 2).await;
        }
    }

    /// Errors are ignored: the server runs without a manager too.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let bytes = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer.get(..bytes).unwrap().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_learns_every_state() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::to(path.as_os_str(), Some(Duration::from_secs(30))).unwrap();
        notify.status("recovering");
        assert_eq!(receive(&manager), "STATUS=recovering");
        notify.ready();
        assert_eq!(receive(&manager), "READY=1\nSTATUS=serving");
        notify.reloading();
        assert!(receive(&manager).starts_with("RELOADING=1\nMONOTONIC_USEC="));
        notify.stopping();
        assert_eq!(receive(&manager), "STOPPING=1\nSTATUS=draining");
        let _ = tokio::time::timeout(Duration::from_secs(31), notify.keep_alive()).await;
        for _ in 0..3 {
            assert_eq!(receive(&manager), "WATCHDOG=1");
        }
    }

    #[test]
    fn an_abstract_name_is_known_by_its_sign() {
        let name = format!("lazuli-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        Notify::to(OsStr::new(&format!("@{name}")), None).unwrap().ready();
        assert_eq!(receive(&manager), "READY=1\nSTATUS=serving");
    }

    #[test]
    fn a_manager_that_is_gone_disturbs_nobody() {
        Notify::default().ready();
        Notify::to(OsStr::new("/nowhere/notify"), None).unwrap().ready();
    }
}
