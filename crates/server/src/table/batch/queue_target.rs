//! Which parts of a transaction put messages into queues, by their targets.

use lazuli_model::AccountName;
use lazuli_wire::uri::{Target, split_account, split_location};

/// What the target of a part names, if the part is a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueTarget<'a> {
    /// Nothing of the Queue service.
    None,
    /// `{queue endpoint}/{queue}/messages`
    Messages(&'a str),
    /// The same, below another account.
    OfOtherAccount,
}

/// Reads the target of a part; `account` and `path_style` are those of the whole request. A table
/// may be called `messages`: what precedes the last segment must be a queue, not just the account.
/// Hosts and ports are otherwise ignored, because those that clients use may differ from ours (T-6.6).
pub(super) fn read<'a>(
    target: &'a str,
    account: &AccountName,
    path_style: bool,
) -> QueueTarget<'a> {
    let path_style = Target::authority(target).map_or(path_style, |host| !names(host, account));
    let path = Target::parse(target).path.trim_start_matches('/');
    let Some(parent) = path.strip_suffix("/messages") else { return QueueTarget::None };
    let (first, rest) = split_account(parent);
    let is_account = split_location(first).0 == account.as_str();
    match rest.strip_prefix('/') {
        None if path_style && is_account => QueueTarget::None,
        None => QueueTarget::Messages(first),
        Some(queue) if !path_style || queue.contains('/') => QueueTarget::None,
        Some(queue) if is_account => QueueTarget::Messages(queue),
        Some(_) => QueueTarget::OfOtherAccount,
    }
}

/// Whether the first label of a host is the account, as in `acct.queue.localhost`.
fn names(host: &str, account: &AccountName) -> bool {
    let label = host.split_once('.').map(|(label, _)| label);
    label.is_some_and(|label| split_location(label).0.eq_ignore_ascii_case(account.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn a_message_has_a_queue_before_it_and_a_table_has_not() {
        let account = AccountName::parse("acct").unwrap();
        let path_style = |target| read(target, &account, true);
        let host_style = |target| read(target, &account, false);
        let mails = QueueTarget::Messages("mails");
        for target in [
            "http://127.0.0.1:10001/acct/mails/messages",
            "http://127.0.0.1:10001/acct/mails/messages?messagettl=5",
            "http://[::1]:10001/acct/mails/messages",
            "https://acct.queue.core.windows.net/mails/messages",
            "https://ACCT.queue.localhost:1/mails/messages",
        ] {
            assert_eq!([path_style(target), host_style(target)], [mails; 2], "{target}");
        }
        for target in [
            "http://127.0.0.1:10002/acct/messages",
            "http://localhost/acct/messages",
            "https://acct.table.core.windows.net/messages",
            "messages",
            "/messages",
            "http://127.0.0.1:10002/acct/messages(PartitionKey='p',RowKey='r')",
            "http://127.0.0.1:10001/acct/a/b/messages",
            "Orders",
            "",
        ] {
            assert_eq!(
                [path_style(target), host_style(target)],
                [QueueTarget::None; 2],
                "{target}"
            );
        }
        // Without a host, the style of the request applies.
        assert_eq!([path_style("mails/messages"), host_style("/mails/messages")], [mails; 2]);
        assert_eq!(path_style("/acct/mails/messages"), mails);
        assert_eq!(path_style("/acct/messages"), QueueTarget::None);
        assert_eq!(host_style("/acct/messages"), QueueTarget::Messages("acct"));
        let other = "http://127.0.0.1:10001/other/mails/messages";
        assert_eq!(path_style(other), QueueTarget::OfOtherAccount);
    }
}
