//! Runs the server on a disk that loses power, fails and fills up on command.
//!
//! The real binary runs on a watched directory (`shim.c`, `shim.rs`). Its file operations are
//! recorded (`trace.rs`), and a model of the disk (`disk.rs`) computes what a crash at each moment
//! may leave (`loss.rs`). What was acknowledged to clients (`workload.rs`, `testkit::acknowledged`)
//! is compared with what a server finds there (`power.rs`, `rotation.rs`), also when calls fail
//! (`faults.rs`, `reads.rs`), bits flip or files disappear (`flips.rs`, `vanished.rs`). A state on
//! which a server failed is kept (`kept.rs`). `docs/decisions/005-disk-faults.md` says why it is
//! done this way.

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
