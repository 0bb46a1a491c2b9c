//! A disk that loses power, fails and fills up on command, and what the server makes of it.
//!
//! The real binary runs on a watched directory (`shim.c`, `shim.rs`). What it does there is recorded
//! (`trace.rs`), and a model of the disk (`disk.rs`) shows what each moment may leave (`loss.rs`).
//! What clients got acknowledged (`workload.rs`, `testkit::acknowledged`) is compared with what a
//! server finds there (`power.rs`, `rotation.rs`), also when calls fail meanwhile (`faults.rs`,
//! `reads.rs`), or bits flip or files vanish at rest (`flips.rs`, `vanished.rs`). A state on which a
//! server went wrong is kept (`kept.rs`). `docs/decisions/005-disk-faults.md` says why it is done
//! this way.

#![cfg(target_os = "linux")]

pub mod bench;
pub mod content;
pub mod disk;
pub mod faults;
pub mod flips;
pub mod image;
pub mod kept;
pub mod loss;
pub mod power;
pub mod reads;
pub mod rotation;
pub mod shim;
pub mod trace;
pub mod vanished;
pub mod workload;
