//! Base64 with the standard alphabet and padding, encoded and decoded with the vector instructions of
//! the processor where it has them.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
use ::base64::engine::Simd;
use ::base64::engine::general_purpose::PAD;
use std::sync::LazyLock;

/// The processor is asked once what it can do.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
pub(crate) static STANDARD: LazyLock<Simd> = LazyLock::new(|| Simd::standard(PAD));

#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
)))]
pub(crate) use ::base64::engine::general_purpose::STANDARD;
