//! A client as a separate process: it works, and prints what that took.

use super::order::{Order, PlainPage};
use super::{Client, Sample, Work, connection_string};
use crate::workload::{BATCH, TABLE};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lazuli_client::{
    Account, AccountBuilder, Body, BoxFuture, Retry, Sent, Table, Transport, TransportError,
    partition,
};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Entities per page.
const PAGE: usize = 1_000;
/// Entities that point reads choose from.
const KEYS: usize = 1_000;

/// The arguments of the process.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Arguments {
    client: Client,
    work: Work,
    address: SocketAddr,
    table: String,
    operations: usize,
    /// Do not read the CPU time: valgrind does not map the kernel page that it is read from.
    #[arg(long)]
    is_counted: bool,
}

impl Arguments {
    pub(super) fn new(
        client: Client,
        work: Work,
        address: SocketAddr,
        table: &str,
        operations: usize,
    ) -> Self {
        Self { client, work, address, table: table.to_owned(), operations, is_counted: false }
    }

    /// The same under valgrind.
    pub(super) fn counted(self) -> Self {
        Self { is_counted: true, ..self }
    }

    /// The command that starts the process.
    pub(super) fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.arg("client");
        for value in [self.client.to_possible_value(), self.work.to_possible_value()] {
            command.arg(value.context("name an argument")?.get_name());
        }
        command.args([self.address.to_string(), self.table.clone(), self.operations.to_string()]);
        command.args(self.is_counted.then_some("--is-counted"));
        Ok(command)
    }

    /// Does the work, and prints the sample.
    #[expect(clippy::print_stdout, reason = "the benchmark reads this line")]
    pub(crate) fn run(self) -> Result<()> {
        // One thread: the measure is the work, not its distribution.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sample = runtime.block_on(self.work())?;
        println!("{}", serde_json::to_string(&sample)?);
        Ok(())
    }

    async fn work(self) -> Result<Sample> {
        match (self.client, self.work) {
            (Client::Bare, Work::Decode) => self.decode_plain().await,
            (Client::Bare, _) => self.send_bare().await,
            (_, Work::Point) => self.read().await,
            (_, Work::Insert) => self.insert().await,
            (_, Work::Decode) => self.decode().await,
            (_, Work::Bulk) => self.bulk().await,
        }
    }

    fn orders(&self, account: &Account) -> Result<Table<Order>> {
        Ok(account.tables().table_of::<Order>(&self.table)?)
    }

    /// Entities with keys that the server does not have yet.
    async fn new_orders(&self) -> Result<Vec<Order>> {
        let account = self.account()?;
        let loaded = account.tables().table_of::<Order>(TABLE)?;
        let query = loaded.query(partition("customer-000000")).take(KEYS);
        let loaded = query.collect_at_most(KEYS).await?;
        ensure!(loaded.len() == KEYS, "the table is not loaded");
        let fresh = |number: usize| {
            let (customer, order) = ((number / BATCH) as u32, (number % BATCH) as u32);
            let known = loaded.get(number % KEYS).map(|order| (**order).clone());
            known.map(|known| Order { customer, order, ..known })
        };
        (0..self.operations).map(|number| fresh(number).context("make an entity")).collect()
    }

    fn account(&self) -> Result<Account> {
        Ok(Account::from_connection_string(&connection_string(self.address))?)
    }

    fn account_through(&self, transport: impl Transport) -> Result<Account> {
        let builder = AccountBuilder::from_connection_string(&connection_string(self.address))?;
        Ok(builder.transport(transport).retry(Retry::none()).build()?)
    }

    /// The requests of the client library, signed and ready to send.
    async fn requests(&self) -> Result<Vec<Request<Bytes>>> {
        let capture = Capture::default();
        let orders = self.orders(&self.account_through(capture.clone())?)?;
        // Each fails, because no answer arrives.
        match self.work {
            Work::Insert => {
                for order in self.new_orders().await? {
                    let _ = orders.insert(&order).await;
                }
            }
            _ => {
                for number in 0..KEYS {
                    let _ = orders.get(Order::key(0, number as u32)?).await;
                }
            }
        }
        Ok(capture.take())
    }

    async fn send_bare(&self) -> Result<Sample> {
        let requests = self.requests().await?;
        let client = hyper();
        let send = |number: usize| {
            let request = requests.get(number % requests.len().max(1)).cloned();
            let client = &client;
            async move {
                let request = request.context("there is no request")?;
                let answer = client.request(request.map(Full::new)).await?;
                ensure!(answer.status().is_success(), "{}", answer.status());
                let body = answer.into_body().collect().await?.to_bytes();
                anyhow::Ok(body.len())
            }
        };
        self.measure(send).await
    }

    async fn read(&self) -> Result<Sample> {
        let orders = self.orders(&self.account()?)?;
        let read = |number: usize| {
            let orders = &orders;
            async move {
                let key = Order::key(0, (number % KEYS) as u32)?;
                let order = orders.get(key).required().await?;
                anyhow::Ok(order.description.len())
            }
        };
        self.measure(read).await
    }

    async fn insert(&self) -> Result<Sample> {
        let orders = self.orders(&self.account()?)?;
        let new = self.new_orders().await?;
        let insert = |number: usize| {
            let insert = new.get(number).map(|order| orders.insert(order));
            async move {
                let written = insert.context("there is no entity")?.await?;
                anyhow::Ok(written.etag.as_str().len())
            }
        };
        self.measure(insert).await
    }

    /// A page of the server, as bytes.
    async fn page(&self) -> Result<Bytes> {
        let capture = Capture::default();
        let orders = self.orders(&self.account_through(capture.clone())?)?;
        let _ = orders.query(partition("customer-000000")).pages().next_page().await;
        let request = capture.take().pop().context("there is no request")?;
        let answer = hyper().request(request.map(Full::new)).await?;
        ensure!(answer.status().is_success(), "{}", answer.status());
        Ok(answer.into_body().collect().await?.to_bytes())
    }

    async fn decode_plain(&self) -> Result<Sample> {
        let page = self.page().await?;
        let decode = |_| {
            let page = &page;
            async move {
                let page: PlainPage = serde_json::from_slice(page)?;
                ensure!(page.value.len() == PAGE, "a short page");
                Ok(page.value.last().map_or(0, |order| order.row_key.len()))
            }
        };
        self.measure(decode).await
    }

    async fn decode(&self) -> Result<Sample> {
        let orders = self.orders(&self.account_through(Answer(self.page().await?))?)?;
        let decode = |_| {
            let orders = &orders;
            async move {
                let page = orders.query(partition("customer-000000")).pages().next_page().await?;
                let page = page.context("there is no page")?;
                ensure!(page.items().len() == PAGE, "a short page");
                Ok(page.items().last().map_or(0, |order| order.description.len()))
            }
        };
        self.measure(decode).await
    }

    async fn bulk(&self) -> Result<Sample> {
        let orders = self.orders(&self.account()?)?;
        let new = self.new_orders().await?;
        let clocks = Clocks::start(self.is_counted);
        let load = orders.bulk().concurrency(self.work.in_flight()).insert(stream::iter(new));
        let report = load.await?;
        ensure!(report.written == self.operations as u64, "{report:?}");
        Ok(clocks.stop(self.operations))
    }

    /// Runs `operation` as often as required, partly concurrently, after a tenth that does not count.
    async fn measure<F>(&self, operation: impl Fn(usize) -> F) -> Result<Sample>
    where
        F: Future<Output = Result<usize>>,
    {
        let warm_up = if self.work == Work::Insert { 0 } else { self.operations / 10 };
        let run = async |count: usize| -> Result<usize> {
            let operations = stream::iter(0..count).map(&operation);
            operations
                .buffer_unordered(self.work.in_flight())
                .try_fold(0, async |sum, n| Ok(sum + n))
                .await
        };
        run(warm_up).await?;
        let clocks = Clocks::start(self.is_counted);
        std::hint::black_box(run(self.operations).await?);
        Ok(clocks.stop(self.operations))
    }
}

/// A hyper client with the same settings as the client library's.
fn hyper() -> Hyper<HttpConnector, Full<Bytes>> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    Hyper::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(tcp)
}

/// Wall-clock time, and the CPU time of this process if it can be read.
struct Clocks {
    wall: Instant,
    cpu: Option<Duration>,
}

// Callgrind counts from one to the other by name.
impl Clocks {
    #[inline(never)]
    fn start(is_counted: bool) -> Self {
        Self { wall: Instant::now(), cpu: (!is_counted).then(cpu) }
    }

    #[inline(never)]
    fn stop(self, operations: usize) -> Sample {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let cpu_us = micros(self.cpu.map_or(Duration::ZERO, |began| cpu().saturating_sub(began)));
        Sample { operations, cpu_us, elapsed_us: micros(self.wall.elapsed()) }
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A transport that records requests and sends none.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<Request<Bytes>>>>);

impl Capture {
    fn take(&self) -> Vec<Request<Bytes>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Transport for Capture {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let error = TransportError { sent: Sent::No, source: "it is not sent".into() };
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A transport that answers every request with this page.
struct Answer(Bytes);

impl Transport for Answer {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        Box::pin(std::future::ready(Ok(Response::new(Body::from(self.0.clone())))))
    }
}
