//! Base64 with the standard alphabet and padding, using the processor's vector instructions where it
//! has them.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
use ::base64::engine::Simd;
use ::base64::engine::general_purpose::PAD;
use std::sync::LazyLock;

/// Detects once what the processor supports.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
pub(crate) static STANDARD: LazyLock<Simd> = LazyLock::new(|| Simd::standard(PAD));

#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
)))]
pub(crate) use ::base64::engine::general_purpose::STANDARD;
