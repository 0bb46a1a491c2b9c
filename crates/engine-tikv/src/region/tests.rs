use super::*;
use proptest::prelude::*;

fn region(id: u64, start: &str, end: &str, store: u64) -> Region {
    let bound = |key: &str| if key.is_empty() { Vec::new() } else { encode(key.as_bytes()) };
    let meta = RegionMeta {
        id,
        start_key: bound(start),
        end_key: bound(end),
        region_epoch: Some(RegionEpoch { conf_ver: 1, version: id }),
        peers: vec![Peer { id: 1, store_id: store }],
    };
    Region::new(meta, None).unwrap()
}

fn ids(cache: &RegionCache, keys: &[&str]) -> Vec<Option<u64>> {
    keys.iter().map(|key| cache.find(&encode(key.as_bytes())).map(|r| r.id())).collect()
}

#[test]
fn encoded_key_is_as_tikv_stores_it() {
    assert_eq!(encode(b""), [0, 0, 0, 0, 0, 0, 0, 0, 247]);
    assert_eq!(encode(&[1, 2, 3]), [1, 2, 3, 0, 0, 0, 0, 0, 250]);
    assert_eq!(
        encode(&[1, 2, 3, 4, 5, 6, 7, 8]),
        [1, 2, 3, 4, 5, 6, 7, 8, 255, 0, 0, 0, 0, 0, 0, 0, 0, 247]
    );
    assert_eq!(decode(&[1, 2, 3]), None);
    assert_eq!(decode(&[0, 0, 0, 0, 0, 0, 0, 0, 255]), None);
    assert_eq!(decode(&[0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
}

proptest! {
    #[test]
    fn encoding_keeps_order_and_can_be_undone(a: Vec<u8>, b: Vec<u8>) {
        prop_assert_eq!(a.cmp(&b), encode(&a).cmp(&encode(&b)));
        prop_assert_eq!(decode(&encode(&a)), Some(a));
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
    }
}

#[test]
fn key_is_found_in_the_region_that_holds_it() {
    let cache = RegionCache::default();
    cache.insert(region(1, "", "d", 1));
    cache.insert(region(2, "m", "", 1));
    assert_eq!(ids(&cache, &["a", "d", "l", "m", "z"]), [Some(1), None, None, Some(2), Some(2)]);
    let before = |key: &str| cache.find_before(&encode(key.as_bytes())).map(|r| r.id());
    assert_eq!(["d", "e", "m", "n"].map(before), [Some(1), None, None, Some(2)]);
}

#[test]
fn split_and_merged_regions_replace_what_they_overlap() {
    let cache = RegionCache::default();
    cache.insert(region(1, "", "", 1));
    cache.insert(region(2, "m", "", 1));
    assert_eq!(ids(&cache, &["a", "m"]), [None, Some(2)]);
    cache.insert(region(1, "", "m", 1));
    assert_eq!(ids(&cache, &["a", "m"]), [Some(1), Some(2)]);
    cache.insert(region(3, "", "", 1));
    assert_eq!(ids(&cache, &["a", "m"]), [Some(3), Some(3)]);
}

#[test]
fn only_the_stale_description_is_forgotten() {
    let cache = RegionCache::default();
    let stale = cache.insert(region(1, "", "", 1));
    cache.set_leader(&stale, Peer { id: 2, store_id: 9 });
    cache.forget(&stale);
    let found = cache.find(&encode(b"a")).unwrap();
    assert_eq!(found.store(), 9);
    cache.forget(&found);
    assert_eq!(cache.find(&encode(b"a")), None);
}
