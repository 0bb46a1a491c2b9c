//! Libraries whose private formats this crate reads are pinned, because a patch release may change
//! those formats.

#[test]
fn libraries_whose_private_formats_are_read_are_pinned() {
    let manifest = include_str!("../../../Cargo.toml");
    for library in ["fjall", "lsm-tree"] {
        let start = format!("{library} = ");
        let line = manifest.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains("version = \"="), "{line}");
    }
}
