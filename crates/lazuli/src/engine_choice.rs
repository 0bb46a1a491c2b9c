//! Where the data is stored: locally, or in the store of `--engine`.

use crate::options::{EngineArguments, ServeOptions, read_text};
use anyhow::Result;
use lazuli_cli::failure::usage;
#[cfg(feature = "postgres")]
use lazuli_engine_postgres::Address;
#[cfg(feature = "tikv")]
use lazuli_engine_tikv::{TikvAddress, TikvAddressError};
use std::fmt;

/// The engine, with its address.
#[derive(Clone, Debug)]
pub(crate) enum EngineChoice {
    /// In the data directory of this process.
    Local,
    #[cfg(feature = "postgres")]
    Postgres(Box<Address>),
    #[cfg(feature = "tikv")]
    Tikv(TikvAddress),
}

/// Which of the mutually exclusive options were given, by flag, environment or file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    pub(crate) data: bool,
    pub(crate) durability: bool,
    /// The address was given as a flag, so anybody on the machine can see it.
    pub(crate) engine_by_flag: bool,
}

/// One scheme per engine.
const SCHEMES: &str = "an address begins with postgres:// or tikv://";

impl EngineChoice {
    pub(crate) fn of(options: &ServeOptions, given: Given) -> Result<Self> {
        let arguments = &options.engine;
        let Some(text) = &arguments.engine else {
            return match &arguments.engine_password_file {
                None => Ok(Self::Local),
                Some(_) => Err(usage(
                    "--engine-password-file is given without --engine",
                    "name the store with --engine postgres://user@host/database",
                )),
            };
        };
        let others = [
            ("--data", given.data),
            ("--durability", given.durability),
            ("--in-memory", options.in_memory),
        ];
        if let Some((other, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
            return Err(usage(
                format!("--engine and {other} exclude each other: the store keeps the data"),
                format!("leave out {other}, or --engine to keep the data on this machine"),
            ));
        }
        Self::parse(&text.0, arguments, given.engine_by_flag)
    }

    /// The store given in the `arguments` of a command.
    pub(crate) fn named(arguments: &EngineArguments, by_flag: bool) -> Result<Self> {
        let text = arguments.engine.as_ref().map_or("", |text| &text.0);
        Self::parse(text, arguments, by_flag)
    }

    fn parse(text: &str, arguments: &EngineArguments, by_flag: bool) -> Result<Self> {
        match text.split_once("://").map(|(scheme, _)| scheme) {
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => {
                postgres(text, arguments, by_flag).map(|address| Self::Postgres(Box::new(address)))
            }
            #[cfg(not(feature = "postgres"))]
            Some("postgres" | "postgresql") => Err(usage(
                "this lazuli was built without PostgreSQL",
                "build it with the feature `postgres`, which is on by default",
            )),
            #[cfg(feature = "tikv")]
            Some("tikv") => tikv(text, arguments).map(Self::Tikv),
            #[cfg(not(feature = "tikv"))]
            Some("tikv") => Err(usage(
                "this lazuli was built without TiKV",
                "build it with the feature `tikv`, which is on by default",
            )),
            // The text is not shown: it may hold a password.
            _ => Err(usage("--engine is not the address of a store", SCHEMES)),
        }
    }

    /// The name in logs and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Local => "local",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
            #[cfg(feature = "tikv")]
            Self::Tikv(_) => "tikv",
        }
    }

    /// The data format that this program writes.
    pub(crate) fn format(&self) -> u32 {
        match self {
            Self::Local => lazuli_engine_local::FORMAT_VERSION,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => lazuli_engine_postgres::FORMAT_VERSION,
            #[cfg(feature = "tikv")]
            Self::Tikv(_) => lazuli_engine_tikv::FORMAT_VERSION,
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local)
    }
}

/// The address of the store, without its password.
impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.fmt(f),
            #[cfg(feature = "tikv")]
            Self::Tikv(address) => address.fmt(f),
        }
    }
}

#[cfg(feature = "postgres")]
fn postgres(text: &str, arguments: &EngineArguments, by_flag: bool) -> Result<Address> {
    let address = Address::parse(text).map_err(|error| usage(error.to_string(), error.hint()))?;
    if address.has_password() && by_flag {
        return Err(usage(
            "the address of --engine has a password, which every user of this machine can see",
            "put it into a file and name that with --engine-password-file, or set LAZULI_ENGINE in \
             the environment",
        ));
    }
    match &arguments.engine_password_file {
        None => Ok(address),
        Some(_) if address.has_password() => Err(usage(
            "the password of the store is given twice: in the address and in a file",
            "leave it out of the address",
        )),
        Some(path) => {
            let password = read_text(path, "--engine-password-file")?;
            Ok(address.with_password(password.trim_end_matches(['\r', '\n'])))
        }
    }
}

#[cfg(feature = "tikv")]
fn tikv(text: &str, arguments: &EngineArguments) -> Result<TikvAddress> {
    if arguments.engine_password_file.is_some() {
        return Err(usage(
            "--engine-password-file is given, but TiKV takes no password",
            "leave it out; tikv://…?ca=FILE&cert=FILE&key=FILE names certificates",
        ));
    }
    text.parse().map_err(|error: TikvAddressError| {
        let advice = match &error {
            TikvAddressError::Identity | TikvAddressError::Option(_) => {
                "an address looks like tikv://pd1:2379,pd2:2379?ca=FILE&cert=FILE&key=FILE"
            }
            TikvAddressError::Keyspace(_) => {
                "leave it out; Lazuli's keys begin with L, beside which others have room"
            }
            _ => "an address looks like tikv://pd1:2379,pd2:2379: the placement drivers",
        };
        usage(error.to_string(), advice)
    })
}
