//! A blob written in blocks, several at a time, and then their list.

use super::PutBlob;
use crate::call::{Answer, Call};
use crate::error::Error;
use crate::rest::{Parameters, too_large};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Method;
use lazuli_model::limits::BLOCKS_MAX;
use lazuli_wire::xml::write_block_list;

pub(super) const BLOCK_BYTES: usize = 8 * 1024 * 1024;
pub(super) const CONCURRENCY: usize = 4;

/// Sends the blocks and the list. Nobody sees a block before the list has come; blocks without a list
/// go by themselves after a week (B-9.5).
pub(super) async fn put(put: &PutBlob) -> Result<Answer, Error> {
    let count = put.bytes.len().div_ceil(put.block_bytes);
    if count > BLOCKS_MAX {
        let bytes_max = put.block_bytes.saturating_mul(BLOCKS_MAX) as u64;
        return Err(put.blob.place("put blob", too_large(put.bytes.len() as u64, bytes_max)));
    }
    // The ids are this upload's own: two uploads at one time do not take each other's blocks. They
    // are as long as those of the official clients, for all ids of a blob must be equally long (B-9.3).
    let upload = put.blob.account.0.env.guid().to_string();
    let ids: Vec<String> =
        (0..count).map(|number| STANDARD.encode(format!("{upload}{number:012}"))).collect();
    let block = |(number, id): (usize, &String)| {
        let start = number * put.block_bytes;
        let end = put.bytes.len().min(start + put.block_bytes);
        let query = Parameters::new().and("comp", "block").and("blockid", id);
        let call = put.blob.call("put block", Method::PUT, query);
        let call = Call { body: put.bytes.slice(start..end), ..call };
        send_block(put, call)
    };
    let blocks: Vec<_> = ids.iter().enumerate().map(block).collect();
    stream::iter(blocks).buffer_unordered(put.concurrency).try_collect::<()>().await?;
    let mut list = Vec::new();
    write_block_list(&mut list, ids.iter().map(String::as_str));
    let query = Parameters::new().and("comp", "blocklist");
    put.blob.exchange(&put.call("put block list", query, list.into())?).await
}

/// Put Block takes a lease but no conditions (B-4.12, B-5.13).
async fn send_block(put: &PutBlob, mut call: Call) -> Result<(), Error> {
    call.options = put.options.clone();
    let conditions =
        super::Conditions { lease: put.conditions.lease.clone(), ..Default::default() };
    conditions.write(&mut call).map_err(|error| put.blob.place("put block", error))?;
    put.blob.exchange(&call).await.map(drop)
}
