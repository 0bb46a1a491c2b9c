"""Put, get, peek, update, delete and clear messages; what they hold, how long, and in which order."""

from datetime import timedelta

from azure.storage.queue import (
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
)
from queue_harness import case, count, equal, is_guid, refused, texts

NO_MESSAGE = "The specified message does not exist."
INVALID = "Value for one of the query parameters specified in the request URI is invalid."
OUT_OF_RANGE = "One of the query parameters specified in the request URI is outside the permissible range."


@case
def a_message_is_put_got_updated_and_deleted(queue):
    put = queue.send_message("first")
    assert is_guid(put.id), put.id
    equal(put.expires_on - put.inserted_on, timedelta(days=7))
    equal(put.next_visible_on, put.inserted_on)
    (peeked,) = queue.peek_messages()
    equal((peeked.id, peeked.content, peeked.dequeue_count), (put.id, "first", 0))
    equal((peeked.inserted_on, peeked.expires_on), (put.inserted_on, put.expires_on))
    equal((peeked.pop_receipt, peeked.next_visible_on), (None, None))

    got = queue.receive_message(visibility_timeout=60)
    equal((got.id, got.content, got.dequeue_count), (put.id, "first", 1))
    assert got.next_visible_on - got.inserted_on >= timedelta(seconds=60), got
    equal((queue.receive_message(), queue.peek_messages(), count(queue)), (None, [], 1))

    updated = queue.update_message(got, content="second", visibility_timeout=0)
    equal((updated.id, updated.content, updated.dequeue_count), (put.id, "second", 1))
    equal((updated.inserted_on, updated.expires_on), (put.inserted_on, put.expires_on))
    assert updated.pop_receipt != got.pop_receipt, "the old receipt lives on"
    again = queue.receive_message()
    equal((again.id, again.content, again.dequeue_count), (put.id, "second", 2))
    # Without content the text stays.
    kept = queue.update_message(again.id, again.pop_receipt, visibility_timeout=0)
    equal(texts(queue.peek_messages()), ["second"])
    queue.delete_message(again.id, kept.pop_receipt)
    with refused(404, "MessageNotFound", NO_MESSAGE):
        queue.delete_message(again.id, kept.pop_receipt)
    equal(count(queue), 0)


@case
def only_the_newest_receipt_opens(queue):
    put = queue.send_message("x")
    got = queue.receive_message()
    # a stale receipt is 404 MessageNotFound, not the documented PopReceiptMismatch.
    for receipt in [put.pop_receipt, "AgAAAAMAAAAAAAAATo9G3YHt2AE="]:
        with refused(404, "MessageNotFound", NO_MESSAGE):
            queue.delete_message(put.id, receipt)
        with refused(404, "MessageNotFound", NO_MESSAGE):
            queue.update_message(put.id, receipt, content="y", visibility_timeout=5)
    unknown = "00000000-0000-0000-0000-000000000000"
    with refused(404, "MessageNotFound", NO_MESSAGE):
        queue.delete_message(unknown, got.pop_receipt)
    # The form of a receipt is judged before the message is looked up.
    for identity, receipt in [(got.id, got.pop_receipt + "Random"), (unknown, "invalid")]:
        with refused(
            400, "InvalidQueryParameterValue", INVALID,
            QueryParameterName="popreceipt", QueryParameterValue=receipt, Reason="Invalid pop receipt format",
        ):
            queue.delete_message(identity, receipt)
    queue.delete_message(got)
    equal(count(queue), 0)


@case
def a_message_waits_for_its_delay_and_lives_as_long_as_asked(queue):
    late = queue.send_message("late", visibility_timeout=3600, time_to_live=7200)
    equal(late.next_visible_on - late.inserted_on, timedelta(hours=1))
    equal(late.expires_on - late.inserted_on, timedelta(hours=2))
    equal((queue.receive_message(), queue.peek_messages(), count(queue)), (None, [], 1))
    # The receipt of Put Message is good until the message is dequeued.
    queue.update_message(late, visibility_timeout=0)
    equal(queue.receive_message().content, "late")

    never = queue.send_message("never", time_to_live=-1)
    equal(str(never.expires_on), "9999-12-31 23:59:59+00:00")
    equal(queue.receive_message().expires_on, never.expires_on)
    long = queue.send_message("long", time_to_live=8 * 86400)
    equal(long.expires_on - long.inserted_on, timedelta(days=8))
    queue.delete_message(long)

    with refused(
        400, "InvalidQueryParameterValue", INVALID, QueryParameterName="visibilitytimeout",
        QueryParameterValue="30", Reason="messagettl must be greater than visibilitytimeout",
    ):
        queue.send_message("x", visibility_timeout=30, time_to_live=30)
    equal(count(queue), 2)


@case
def numbers_out_of_range_are_refused_with_their_range(queue):
    message = queue.send_message("x")
    week = 604800
    for attempt, name, value, low, high in [
        (lambda: next(queue.receive_messages(messages_per_page=33)), "numofmessages", 33, 1, 32),
        (lambda: next(queue.receive_messages(messages_per_page=-1)), "numofmessages", -1, 1, 32),
        (lambda: queue.receive_message(visibility_timeout=0), "visibilitytimeout", 0, 1, week),
        (lambda: queue.receive_message(visibility_timeout=week + 1), "visibilitytimeout", week + 1, 1, week),
        (lambda: queue.send_message("x", visibility_timeout=-1), "visibilitytimeout", -1, 0, week),
        (lambda: queue.update_message(message, visibility_timeout=week + 1), "visibilitytimeout", week + 1, 0, week),
    ]:
        with refused(
            400, "OutOfRangeQueryParameterValue", OUT_OF_RANGE, QueryParameterName=name,
            QueryParameterValue=str(value), MinimumAllowed=str(low), MaximumAllowed=str(high),
        ):
            attempt()
    equal(texts(queue.peek_messages()), ["x"])


@case
def texts_come_back_as_sent(queue):
    sent = [
        "plain",
        "<tag attribute=\"'\">&amp; & ]]> <!-- no --></tag>",
        "ô 日本語 😀 \u0085\u2028\ufffd",
        "  spaces\tand tabs\nand lines  ",
        " ",
        "{\"json\": [1, 2.5, null]}",
        "",
    ]
    for text in sent:
        queue.send_message(text)
    # An empty MessageText is read as nothing by this SDK.
    expected = [text or None for text in sent]
    equal([text or None for text in texts(queue.peek_messages(max_messages=32))], expected)
    received = list(queue.receive_messages(messages_per_page=32))
    equal([text or None for text in texts(received)], expected)
    for text, message in zip(reversed(sent), received):
        queue.update_message(message, content=text or " ", visibility_timeout=0)
    equal(texts(queue.peek_messages(max_messages=32)), [text or " " for text in reversed(sent)])
    with refused(
        400, "InvalidXmlDocument", "XML specified is not syntactically valid.",
        Reason="Error parsing Xml content",
    ):
        queue.send_message("\x01")


@case
def encoded_messages_are_kept_as_their_text(account, queue):
    binary = account.queue(
        queue.queue_name,
        message_encode_policy=BinaryBase64EncodePolicy(), message_decode_policy=BinaryBase64DecodePolicy(),
    )
    binary.send_message(bytes(range(256)))
    equal(binary.receive_message(visibility_timeout=1).content, bytes(range(256)))
    queue.clear_messages()
    encoded = account.queue(
        queue.queue_name,
        message_encode_policy=TextBase64EncodePolicy(), message_decode_policy=TextBase64DecodePolicy(),
    )
    encoded.send_message("<日本語>")
    equal(texts(encoded.peek_messages()), ["<日本語>"])
    # The service knows nothing of Base64.
    equal(texts(queue.peek_messages()), ["POaXpeacrOiqnj4="])


@case
def a_message_holds_64_kib(queue):
    # The limit counts the UTF-8 of the text, not the XML around it.
    for text in ["a" * 65536, "é" * 32768, "<" * 65536]:
        message = queue.send_message(text)
        equal(texts(queue.peek_messages()), [text])
        too_large = refused(
            413, "RequestBodyTooLarge",
            "The request body is too large and exceeds the maximum permissible limit.", MaxLimit="65536",
        )
        with too_large:
            queue.update_message(message, content=text + "a", visibility_timeout=0)
        queue.delete_message(message)
    with refused(413, "RequestBodyTooLarge", MaxLimit="65536"):
        queue.send_message("é" * 32768 + "a")
    equal(count(queue), 0)


@case
def messages_come_first_in_first_out_and_a_clear_takes_all(queue):
    for number in range(40):
        queue.send_message(str(number))
    equal(texts(queue.peek_messages(max_messages=32)), [str(number) for number in range(32)])
    pages = queue.receive_messages(messages_per_page=32, visibility_timeout=60).by_page()
    first, second = list(next(pages)), list(next(pages))
    equal(texts(first + second), [str(number) for number in range(40)])
    # One Get gives one receipt to all its messages.
    equal(len({message.pop_receipt for message in first}), 1)
    equal(len({message.id for message in first + second}), 40)
    assert first[0].pop_receipt != second[0].pop_receipt
    equal(count(queue), 40)
    # The receipt goes with its own message alone, and with each of them.
    queue.delete_message(first[0].id, first[1].pop_receipt)
    queue.update_message(first[1], visibility_timeout=0)
    equal((texts(queue.peek_messages()), count(queue)), (["1"], 39))
    queue.clear_messages()
    equal((queue.peek_messages(), queue.receive_message(), count(queue)), ([], None, 0))
    with refused(404, "MessageNotFound", NO_MESSAGE):
        queue.delete_message(second[0])
