//! Writes a blob in concurrent blocks, followed by their list.

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
use std::time::Duration;

pub(super) const BLOCK_BYTES: usize = 8 * 1024 * 1024;
pub(super) const CONCURRENCY: usize = 4;

/// Sends the blocks and the list. The blocks are invisible until the list is written; blocks without a list are
/// removed after a week (B-9.5).
pub(super) async fn put(put: &PutBlob) -> Result<Answer, Error> {
    let count = put.bytes.len().div_ceil(put.block_bytes);
    if count > BLOCKS_MAX {
        let bytes_max = put.block_bytes.saturating_mul(BLOCKS_MAX) as u64;
        return Err(put.blob.place("put blob", too_large(put.bytes.len() as u64, bytes_max)));
    }
    // The ids are unique to this upload: concurrent uploads do not use each other's blocks. They have the length
    // used by the official clients, because all ids of a blob must have the same length (B-9.3).
    let env = &put.blob.account.0.env;
    let upload = env.guid().to_string();
    let deadline = put.options.deadline(env);
    let ids: Vec<String> =
        (0..count).map(|number| STANDARD.encode(format!("{upload}{number:012}"))).collect();
    let block = |(number, id): (usize, &String)| {
        let start = number * put.block_bytes;
        let end = put.bytes.len().min(start + put.block_bytes);
        let query = Parameters::new().and("comp", "block").and("blockid", id);
        let call = put.blob.call("put block", Method::PUT, query);
        let call = Call { body: put.bytes.slice(start..end), ..call };
        send_block(put, call, deadline)
    };
    let blocks: Vec<_> = ids.iter().enumerate().map(block).collect();
    stream::iter(blocks).buffer_unordered(put.concurrency).try_collect::<()>().await?;
    let mut list = Vec::new();
    write_block_list(&mut list, ids.iter().map(String::as_str));
    let query = Parameters::new().and("comp", "blocklist");
    let mut call = put.call("put block list", query, list.into())?;
    call.options = put.options.until(deadline, env);
    put.blob.exchange(&call).await
}

/// Put Block accepts a lease but no conditions (B-4.12, B-5.13).
async fn send_block(
    put: &PutBlob,
    mut call: Call,
    deadline: Option<Duration>,
) -> Result<(), Error> {
    call.options = put.options.until(deadline, &put.blob.account.0.env);
    let conditions =
        super::Conditions { lease: put.conditions.lease.clone(), ..Default::default() };
    conditions.write(&mut call).map_err(|error| put.blob.place("put block", error))?;
    put.blob.exchange(&call).await.map(drop)
}
