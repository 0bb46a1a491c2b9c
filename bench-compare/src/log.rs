//! Bare logs: what no store with a log can be faster than.

use crate::{Row, Store};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

const PREALLOCATED_BYTES: usize = 1 << 30;

type Open = fn(&Path) -> Box<dyn Store + Send>;

pub const LOGS: [(&str, Open); 3] = [
    // The file grows with each write.
    ("log, growing", |dir| log(dir, |_| {})),
    // The file has its length and no blocks: what fjall's journal does.
    ("log, length set", |dir| log(dir, |file| file.set_len(PREALLOCATED_BYTES as u64).unwrap())),
    // The file has its length and its blocks, written before.
    ("log, preallocated", |dir| log(dir, fill_with_zeros)),
];

struct Log(Mutex<File>);

fn log(dir: &Path, prepare: fn(&mut File)) -> Box<dyn Store + Send> {
    let path = dir.join("log");
    prepare(&mut File::create(&path).unwrap());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    Box::new(Log(Mutex::new(file)))
}

fn fill_with_zeros(file: &mut File) {
    let zeros = vec![0; 1 << 20];
    for _ in 0..PREALLOCATED_BYTES / zeros.len() {
        file.write_all(&zeros).unwrap();
    }
}

impl Store for Log {
    fn write(&self, rows: Vec<Row>, durable: bool) {
        let bytes: Vec<u8> =
            rows.into_iter().flat_map(|(key, value)| [key, value].concat()).collect();
        let mut file = self.0.lock().unwrap();
        file.write_all(&bytes).unwrap();
        if durable {
            file.sync_data().unwrap();
        }
    }

    fn get(&self, _: &[u8]) -> Option<usize> {
        None
    }

    fn scan(&self) -> (u64, usize) {
        (0, 0)
    }
}
