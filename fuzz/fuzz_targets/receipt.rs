#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lazuli_hostile::run("receipt", input));
