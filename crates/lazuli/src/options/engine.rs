//! Options for data that is not stored on this machine.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};
use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// A store that several gateways share.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Shared store")]
pub(crate) struct EngineArguments {
    /// Keep the data in a store that several gateways share, instead of --data:
    /// `postgres://user@host1,host2/database`, or `tikv://pd1:2379,pd2:2379` (a preview). Put a
    /// password into --engine-password-file, or the whole address into LAZULI_ENGINE
    #[arg(long, value_name = "ADDRESS", value_parser = EngineText::parse)]
    pub(crate) engine: Option<EngineText>,

    /// File with the password for --engine
    #[arg(long, value_name = "FILE")]
    pub(crate) engine_password_file: Option<PathBuf>,

    /// Memory for query results read from the shared store, all queries together, in MiB
    #[arg(long, value_name = "MIB", default_value = "256")]
    pub(crate) engine_chunks_mib: NonZeroU32,

    /// Maximum connections to PostgreSQL; queries use at most three quarters of them
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) postgres_connections: NonZeroU32,

    /// Let the TiKV cluster drop versions older than ten minutes; set to false where TiDB shares the
    /// cluster [default: true]
    #[arg(long, action = ArgAction::Set, default_value_t = true)]
    pub(crate) tikv_gc: bool,

    /// The name of this gateway in the shared store [default: host name and a random number]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) gateway_id: Option<String>,

    /// Use a store that can lose acknowledged writes when it crashes; for tests
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) unsafe_store: bool,
}

/// The unparsed address of a store.
///
/// Parsing never fails, because clap's error message would show the text, which may hold a password.
#[derive(Clone)]
pub(crate) struct EngineText(pub(crate) String);

impl EngineText {
    fn parse(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for EngineText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineText(..)")
    }
}
