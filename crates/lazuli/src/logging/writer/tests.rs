use super::*;
use std::cell::RefCell;

/// A log that fails at some writes, as in `plan`, and accepts only some bytes at others.
#[derive(Default)]
struct Planned {
    written: String,
    /// How many bytes each write accepts, or its error; afterwards everything is accepted.
    plan: Vec<Result<usize, io::ErrorKind>>,
    reopened: usize,
}

impl Sink for &RefCell<Planned> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut planned = self.borrow_mut();
        let step = if planned.plan.is_empty() { Ok(bytes.len()) } else { planned.plan.remove(0) };
        let bytes = &bytes[..step?];
        planned.written.push_str(std::str::from_utf8(bytes).unwrap());
        Ok(bytes.len())
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.borrow_mut().reopened += 1;
        Ok(())
    }
}

fn writer<'a>(
    queue: &LogQueue,
    sink: &'a RefCell<Planned>,
) -> Writer<&'a RefCell<Planned>, impl Fn(u64) + use<'a>> {
    let report = {
        let queue = queue.clone();
        move |lines| queue.push(format!("{lines} dropped\n").as_bytes())
    };
    Writer { queue: queue.clone(), sink, report, reported: 0, is_cut: false }
}

/// What is in the log after each of `batches` was logged and written, under `plan`.
#[track_caller]
fn check(plan: &[Result<usize, io::ErrorKind>], batches: &[&str], written: &str, dropped: u64) {
    let sink = RefCell::new(Planned { plan: plan.to_vec(), ..Planned::default() });
    let queue = LogQueue::new(10);
    let mut writer = writer(&queue, &sink);
    for batch in batches {
        batch.split_inclusive('\n').for_each(|line| queue.push(line.as_bytes()));
        writer.write_what_waits();
        while queue.state().has_work() {
            writer.write_what_waits();
        }
    }
    assert_eq!((sink.borrow().written.as_str(), queue.lines_dropped()), (written, dropped));
}

const FULL: Result<usize, io::ErrorKind> = Err(io::ErrorKind::StorageFull);

#[test]
fn lines_are_written_in_their_order() {
    check(&[], &["a\nb\n", "c\n"], "a\nb\nc\n", 0);
    check(&[Ok(1), Err(io::ErrorKind::Interrupted), Ok(2)], &["a\nb\n", "c\n"], "a\nb\nc\n", 0);
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_reported_when_writing_works_again() {
    check(&[FULL], &["a\nb\n"], "", 2);
    check(&[FULL, FULL], &["a\nb\n", "c\n", "d\n"], "d\n3 dropped\n", 3);
    check(&[Ok(0)], &["a\n", "b\n"], "b\n1 dropped\n", 1);
}

#[test]
fn a_line_that_was_cut_is_ended_before_the_next() {
    check(&[Ok(3), FULL], &["a\nbc\nd\n", "e\n"], "a\nb\ne\n2 dropped\n", 2);
    check(&[Ok(1), FULL, FULL], &["abc\n", "d\n", "e\n"], "a\ne\n2 dropped\n", 2);
}

#[test]
fn a_full_queue_drops_and_counts() {
    let sink = RefCell::default();
    let queue = LogQueue::new(2);
    for line in ["a\n", "b\n", "c\n"] {
        (&queue).write_all(line.as_bytes()).unwrap();
    }
    assert_eq!(queue.lines_dropped(), 1);
    assert!(!queue.flush(Duration::ZERO), "nobody writes");
    let mut writer = writer(&queue, &sink);
    writer.write_what_waits();
    writer.write_what_waits();
    assert_eq!(sink.borrow().written, "a\nb\n1 dropped\n");
    assert!(queue.flush(Duration::MAX));
}

#[test]
fn a_queue_is_bounded_in_bytes_too() {
    let queue = LogQueue::new(1000);
    let line = vec![b'x'; LINE_BYTES_MEAN_MAX * 600];
    queue.push(&line);
    queue.push(&line);
    assert_eq!(queue.lines_dropped(), 1);
    let queue = LogQueue::new(1);
    queue.push(&line[..QUEUE_BYTES_MIN]);
    assert_eq!(queue.lines_dropped(), 0);
}

#[test]
fn the_file_is_opened_again_between_two_writes() {
    let sink = RefCell::default();
    let queue = LogQueue::new(2);
    queue.reopen();
    writer(&queue, &sink).write_what_waits();
    assert_eq!(sink.borrow().reopened, 1);
    assert!(queue.flush(Duration::MAX));
}

#[test]
fn a_renamed_file_is_left_at_the_next_reopening() {
    let scratch = tempfile::tempdir().unwrap();
    let [path, renamed] = ["log", "log.1"].map(|name| scratch.path().join(name));
    let queue = LogQueue::start(LogSink::open(&path).unwrap(), NonZeroUsize::MIN).unwrap();
    let log = |line: &str| {
        queue.push(line.as_bytes());
        assert!(queue.flush(Duration::MAX));
    };
    log("before\n");
    std::fs::rename(&path, &renamed).unwrap();
    log("between\n");
    queue.reopen();
    assert!(queue.flush(Duration::MAX));
    log("after\n");
    assert_eq!(std::fs::read_to_string(&renamed).unwrap(), "before\nbetween\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "after\n");
}

#[test]
fn lines_gather_until_the_queue_is_half_full() {
    let queue = LogQueue::new(4);
    queue.push(b"a\n");
    assert!(!queue.state().is_urgent);
    queue.push(b"b\n");
    assert!(queue.state().is_urgent);
    // So that it does not wait.
    queue.gather();
    queue.take(&mut Vec::new());
    assert!(!queue.state().is_urgent);
}
