use super::*;
use crate::proto::{Peer, RegionEpoch, RegionMeta};

fn region(id: u64, version: u64) -> Region {
    let meta = RegionMeta {
        id,
        region_epoch: Some(RegionEpoch { conf_ver: 1, version }),
        peers: vec![Peer { id: 1, store_id: 1 }],
        ..RegionMeta::default()
    };
    Region::new(meta, None).unwrap()
}

fn keys(texts: &[&'static str]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
}

fn reads(reads: &Arc<SharedReads>, region: &Region, texts: &[&'static str]) -> Call {
    match reads.enter(region, Newest::Dated, &keys(texts)) {
        Entered::Reads(call) => call,
        Entered::Waits(_) => panic!("it waits"),
    }
}

fn waits(
    reads: &Arc<SharedReads>,
    region: &Region,
    texts: &[&'static str],
) -> oneshot::Receiver<Turn> {
    match reads.enter(region, Newest::Dated, &keys(texts)) {
        Entered::Reads(_) => panic!("it does not wait"),
        Entered::Waits(turn) => turn,
    }
}

fn is_called(mut turn: oneshot::Receiver<Turn>) -> Call {
    match turn.try_recv() {
        Ok(Turn::Reads(call)) => call,
        _ => panic!("it is not called"),
    }
}

fn answer(texts: &[&'static str]) -> Read {
    let pairs = keys(texts).into_iter().map(|key| (key.clone(), key)).collect();
    let mut read = Read::default();
    read.found = pairs;
    read
}

#[test]
fn reads_that_begin_together_are_answered_by_one_call() {
    let shared = Arc::new(SharedReads::default());
    let here = region(1, 1);
    let mut call = reads(&shared, &here, &["t", "a"]);
    let mut others = [waits(&shared, &here, &["t", "b"]), waits(&shared, &here, &["t", "c"])];
    let own = keys(&["t", "a"]);
    call.gather(&own);
    let later = reads(&shared, &here, &["d"]);
    let mut wanted = call.keys(&own);
    wanted.sort();
    assert_eq!(wanted, keys(&["a", "b", "c", "t"]));
    let part = call.finish(&own, Ok(answer(&["a", "b", "t"]))).unwrap();
    assert_eq!(part.found, answer(&["a", "t"]).found);
    for (other, found) in others.iter_mut().zip([&["b", "t"][..], &["t"]]) {
        let Ok(Turn::Done(Ok(part))) = other.try_recv() else { panic!("it has no answer") };
        assert_eq!(part.found, answer(found).found);
    }
    drop(later);
    assert!(shared.lines().is_empty());
}

#[test]
fn regions_and_versions_of_one_are_apart() {
    let shared = Arc::new(SharedReads::default());
    let _calls =
        [(1, 1), (1, 2), (2, 1)].map(|(id, version)| reads(&shared, &region(id, version), &["a"]));
}

#[test]
fn whoever_gives_up_is_replaced() {
    let shared = Arc::new(SharedReads::default());
    let here = region(1, 1);
    let call = reads(&shared, &here, &["a"]);
    let gone = waits(&shared, &here, &["b"]);
    let (one, mut two) = (waits(&shared, &here, &["c"]), waits(&shared, &here, &["d"]));
    drop(gone);
    drop(call);
    let mut call = is_called(one);
    call.gather(&keys(&["c"]));
    assert_eq!(call.others.len(), 1);
    // Its caller goes away during the read.
    drop(call);
    assert!(matches!(two.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    assert!(shared.lines().is_empty(), "nothing is left");
}

#[test]
fn an_error_is_told_to_all() {
    let shared = Arc::new(SharedReads::default());
    let here = region(1, 1);
    let mut call = reads(&shared, &here, &["a"]);
    let mut other = waits(&shared, &here, &["c"]);
    call.gather(&keys(&["a"]));
    let failed = call.finish(&keys(&["a"]), Err(SendError::Moved("m".into())));
    assert!(matches!(failed, Err(SendError::Moved(_))));
    assert!(matches!(other.try_recv(), Ok(Turn::Done(Err(SendError::Moved(_))))));
}

/// The time of the read that gathered the others is over; theirs may not be.
#[test]
fn a_read_whose_time_is_over_ends_no_other() {
    let shared = Arc::new(SharedReads::default());
    let here = region(1, 1);
    let mut call = reads(&shared, &here, &["a"]);
    let mut other = waits(&shared, &here, &["c"]);
    call.gather(&keys(&["a"]));
    let late = SendError::Failed(ClientError::Unavailable("late".into()));
    assert!(matches!(call.finish(&keys(&["a"]), Err(late)), Err(SendError::Failed(_))));
    assert!(matches!(other.try_recv(), Ok(Turn::Done(Err(SendError::Unsent(_))))));
}

#[test]
fn calls_are_bounded_and_the_rest_makes_the_next() {
    let shared = Arc::new(SharedReads::default());
    let here = region(1, 1);
    let mut call = reads(&shared, &here, &["a"]);
    let mut turns: Vec<_> = (0..READS_MAX).map(|_| waits(&shared, &here, &["b"])).collect();
    call.gather(&keys(&["a"]));
    assert_eq!(call.others.len(), READS_MAX - 1);
    let mut next = is_called(turns.pop().unwrap());
    next.gather(&keys(&["b"]));
    assert!(next.others.is_empty() && shared.lines().is_empty());
}
