import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import com.azure.storage.common.sas.AccountSasPermission;
import com.azure.storage.common.sas.AccountSasResourceType;
import com.azure.storage.common.sas.AccountSasService;
import com.azure.storage.common.sas.AccountSasSignatureValues;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueMessageEncoding;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.azure.storage.queue.models.PeekedMessageItem;
import com.azure.storage.queue.models.QueueAccessPolicy;
import com.azure.storage.queue.models.QueueAnalyticsLogging;
import com.azure.storage.queue.models.QueueCorsRule;
import com.azure.storage.queue.models.QueueItem;
import com.azure.storage.queue.models.QueueMessageItem;
import com.azure.storage.queue.models.QueueMetrics;
import com.azure.storage.queue.models.QueueRetentionPolicy;
import com.azure.storage.queue.models.QueueServiceProperties;
import com.azure.storage.queue.models.QueueSignedIdentifier;
import com.azure.storage.queue.models.QueueStorageException;
import com.azure.storage.queue.models.QueuesSegmentOptions;
import com.azure.storage.queue.models.SendMessageResult;
import com.azure.storage.queue.sas.QueueSasPermission;
import com.azure.storage.queue.sas.QueueServiceSasSignatureValues;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** azure-storage-queue for Java through every operation of the service. */
final class Queues {
    private static final Duration WEEK = Duration.ofDays(7);
    private static final Duration HIDDEN = Duration.ofMinutes(10);
    private static final String NO_MESSAGE = "The specified message does not exist.";

    private final String connection;
    private final QueueServiceClient service;
    private final QueueClient queue;

    /** A case finds the service and a queue made for it in the fields. */
    private interface Case {
        void run(Queues self);
    }

    private Queues(String connection, QueueServiceClient service) {
        this.connection = connection;
        this.service = service;
        this.queue = service.createQueue(Main.freshName("q"));
    }

    static Map<String, Main.Attempt> cases(String connection) {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("queues_are_created_listed_and_deleted", Queues::listed);
        cases.put("metadata_is_replaced_as_a_whole", Queues::metadata);
        cases.put("a_message_is_put_got_updated_and_deleted", Queues::life);
        cases.put("messages_are_delayed_counted_and_cleared", Queues::times);
        cases.put("texts_come_back_as_sent", Queues::texts);
        cases.put("policies_give_and_take_away", Queues::policies);
        cases.put("tokens_open_what_they_say", Queues::tokens);
        cases.put("service_properties_are_kept_section_by_section", Queues::properties);
        cases.put("the_secondary_is_read_only", Queues::secondary);
        QueueServiceClient service = builder().connectionString(connection).buildClient();
        return cases.entrySet().stream().collect(Collectors.toMap(
            Map.Entry::getKey, test -> () -> runOne(new Queues(connection, service), test.getValue()),
            (first, second) -> first, LinkedHashMap::new));
    }

    private static void runOne(Queues self, Case test) {
        try {
            test.run(self);
        } finally {
            self.queue.delete();
        }
    }

    /** One attempt: a retry would hide an answer that should not have been given. */
    private static QueueServiceClientBuilder builder() {
        return new QueueServiceClientBuilder()
            .retryOptions(new RequestRetryOptions(RetryPolicyType.FIXED, 1, 60, null, null, null));
    }

    private void listed() {
        String stem = Main.freshName("java");
        List<String> names = IntStream.range(0, 5).mapToObj(n -> stem + "-" + n).toList();
        names.forEach(name -> service.createQueueWithResponse(name, Map.of("last", name), null, Context.NONE));
        // This SDK sends `include=` when it wants no metadata.
        QueuesSegmentOptions options = new QueuesSegmentOptions().setPrefix(stem).setMaxResultsPerPage(2);
        List<List<String>> pages = new ArrayList<>();
        service.listQueues(options, null, Context.NONE).iterableByPage()
            .forEach(page -> pages.add(page.getValue().stream().map(QueueItem::getName).toList()));
        Main.equal(pages, List.of(names.subList(0, 2), names.subList(2, 4), names.subList(4, 5)));
        QueuesSegmentOptions full = new QueuesSegmentOptions().setPrefix(stem).setIncludeMetadata(true);
        Main.equal(
            service.listQueues(full, null, Context.NONE).stream().map(QueueItem::getMetadata).toList(),
            names.stream().map(name -> Map.of("last", name)).toList());
        QueueClient first = service.getQueueClient(names.get(0));
        refused(409, "QueueAlreadyExists", "The specified queue already exists.", first::create);
        Main.equal(first.createIfNotExists(), false);
        names.forEach(service::deleteQueue);
        Main.equal(first.deleteIfExists(), false);
        refused(404, "QueueNotFound", "The specified queue does not exist.", first::delete);
        refused(404, "QueueNotFound", "", () -> first.sendMessage("x"));
        refused(404, "QueueNotFound", "", first::receiveMessage);
        refused(404, "QueueNotFound", "", first::getProperties);
        refused(400, "InvalidResourceName", "The specifed resource name", () -> service.createQueue("Upper"));
        refused(400, "OutOfRangeInput", "", () -> service.createQueue("ab"));
    }

    private void metadata() {
        for (Map<String, String> pairs : List.of(
                Map.of("color", "deep blue", "n1", "5"), Map.of("shape", "round"), Map.<String, String>of())) {
            queue.setMetadata(pairs);
            Main.equal(queue.getProperties().getMetadata(), pairs);
        }
        refused(400, "InvalidMetadata", "", () -> queue.setMetadata(Map.of("invalid-meta", "x")));
    }

    private void life() {
        SendMessageResult put = queue.sendMessage("first");
        Main.equal(Duration.between(put.getInsertionTime(), put.getExpirationTime()), WEEK);
        Main.equal(put.getTimeNextVisible(), put.getInsertionTime());
        PeekedMessageItem seen = queue.peekMessage();
        Main.equal(List.of(seen.getMessageId(), text(seen), seen.getDequeueCount()), List.of(put.getMessageId(), "first", 0L));
        QueueMessageItem got = take().get(0);
        Main.equal(List.of(got.getMessageId(), text(got), got.getDequeueCount()), List.of(put.getMessageId(), "first", 1L));
        Main.equal(List.of(take(), peeked(queue), count()), List.of(List.of(), List.of(), 1));
        String updated = queue.updateMessage(got.getMessageId(), got.getPopReceipt(), "second", Duration.ZERO).getPopReceipt();
        QueueMessageItem again = take().get(0);
        Main.equal(List.of(again.getMessageId(), text(again), again.getDequeueCount()), List.of(put.getMessageId(), "second", 2L));
        // a receipt before the newest is stale, and that is 404.
        for (String receipt : List.of(put.getPopReceipt(), got.getPopReceipt(), updated)) {
            refused(404, "MessageNotFound", NO_MESSAGE, () -> queue.deleteMessage(got.getMessageId(), receipt));
        }
        refused(400, "InvalidQueryParameterValue", "<Reason>Invalid pop receipt format</Reason>",
            () -> queue.deleteMessage(got.getMessageId(), again.getPopReceipt() + "Random"));
        queue.deleteMessage(again.getMessageId(), again.getPopReceipt());
        refused(404, "MessageNotFound", NO_MESSAGE, () -> queue.deleteMessage(again.getMessageId(), again.getPopReceipt()));
        Main.equal(count(), 0);
    }

    private void times() {
        SendMessageResult late = send("late", Duration.ofHours(1), Duration.ofSeconds(-1));
        Main.equal(Duration.between(late.getInsertionTime(), late.getTimeNextVisible()), Duration.ofHours(1));
        Main.equal(late.getExpirationTime().toString(), "9999-12-31T23:59:59Z");
        List<String> sent = IntStream.range(0, 40).mapToObj(String::valueOf).toList();
        sent.forEach(queue::sendMessage);
        List<QueueMessageItem> first = take();
        List<QueueMessageItem> all = new ArrayList<>(first);
        all.addAll(take());
        Main.equal(all.stream().map(Queues::text).toList(), sent);
        // One Get gives one receipt to all its messages.
        Main.equal(first.stream().map(QueueMessageItem::getPopReceipt).distinct().count(), 1L);
        Main.equal(count(), 41);
        // The receipt of Put Message is good until the message is dequeued; without a text the old one stays.
        queue.updateMessage(late.getMessageId(), late.getPopReceipt(), null, Duration.ZERO);
        Main.equal(peeked(queue), List.of("late"));
        refused(400, "OutOfRangeQueryParameterValue", "<MaximumAllowed>32</MaximumAllowed>",
            () -> queue.receiveMessages(33).stream().count());
        refused(400, "InvalidQueryParameterValue", "messagettl must be greater than visibilitytimeout",
            () -> send("x", Duration.ofSeconds(30), Duration.ofSeconds(30)));
        queue.clearMessages();
        Main.equal(count(), 0);
    }

    private void texts() {
        List<String> sent = List.of(
            "<tag attribute=\"'\">&amp; & ]]> <!-- no --></tag>", "ô 日本語 😀",
            "  spaces\tand tabs\nand lines  ", "é".repeat(32768));
        sent.forEach(queue::sendMessage);
        Main.equal(peeked(queue), sent);
        Main.equal(take().stream().map(Queues::text).toList(), sent);
        refused(413, "RequestBodyTooLarge", "<MaxLimit>65536</MaxLimit>", () -> queue.sendMessage("a".repeat(65537)));
        queue.clearMessages();
        byte[] bytes = new byte[256];
        IntStream.range(0, 256).forEach(n -> bytes[n] = (byte) n);
        QueueClient binary = builder().connectionString(connection).messageEncoding(QueueMessageEncoding.BASE64)
            .buildClient().getQueueClient(queue.getQueueName());
        binary.sendMessage(BinaryData.fromBytes(bytes));
        Main.equal(peeked(queue), List.of(Base64.getEncoder().encodeToString(bytes)));
        Main.equal(Arrays.equals(binary.receiveMessage().getBody().toBytes(), bytes), true);
    }

    private void policies() {
        OffsetDateTime start = OffsetDateTime.of(2000, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC);
        QueueAccessPolicy policy = new QueueAccessPolicy().setPermissions("r").setStartsOn(start).setExpiresOn(soon());
        QueueSignedIdentifier worker = new QueueSignedIdentifier().setId("worker").setAccessPolicy(policy);
        queue.setAccessPolicy(List.of(worker));
        QueueSignedIdentifier kept = queue.getAccessPolicy().stream().findFirst().orElseThrow();
        Main.equal(kept.getId(), "worker");
        Main.equal(
            List.of(kept.getAccessPolicy().getPermissions(), kept.getAccessPolicy().getStartsOn(), kept.getAccessPolicy().getExpiresOn()),
            List.of("r", start, policy.getExpiresOn()));
        QueueClient reader = with(queue.generateSas(new QueueServiceSasSignatureValues("worker")));
        Main.equal(peeked(reader), List.of());
        refused(403, "AuthorizationPermissionMismatch", "using this permission.", () -> reader.sendMessage("x"));
        policy.setPermissions("ap");
        queue.setAccessPolicy(List.of(worker));
        reader.sendMessage("x");
        refused(400, "InvalidXmlDocument", "", () -> queue.setAccessPolicy(Collections.nCopies(6, worker)));
        queue.setAccessPolicy(List.of());
        refused(403, "AuthenticationFailed", "", () -> reader.sendMessage("x"));
        Main.equal(queue.getAccessPolicy().stream().count(), 0L);
    }

    private void tokens() {
        QueueClient reader = with(queue.generateSas(
            new QueueServiceSasSignatureValues(soon(), QueueSasPermission.parse("r"))));
        Main.equal(peeked(reader), List.of());
        refused(403, "AuthorizationPermissionMismatch", "", reader::receiveMessage);
        refused(403, "AuthorizationFailure", "", reader::clearMessages);
        QueueClient late = with(queue.generateSas(
            new QueueServiceSasSignatureValues(soon().minusHours(2), QueueSasPermission.parse("r"))));
        refused(403, "AuthenticationFailed", "", late::peekMessage);

        QueueServiceClient full = account("rwdlacup", "sco");
        String name = Main.freshName("q");
        QueueClient other = full.createQueue(name);
        SendMessageResult put = other.sendMessage("x");
        String receipt = other.updateMessage(put.getMessageId(), put.getPopReceipt(), "y", Duration.ZERO).getPopReceipt();
        other.deleteMessage(put.getMessageId(), receipt);
        other.clearMessages();
        refused(403, "AuthorizationFailure", "", () -> other.getAccessPolicy().stream().count());
        full.deleteQueue(name);
        QueueServiceClient lister = account("l", "s");
        Main.equal(lister.listQueues(new QueuesSegmentOptions().setPrefix(queue.getQueueName()), null, Context.NONE).stream().count(), 1L);
        refused(403, "AuthorizationResourceTypeMismatch", "", lister.getQueueClient(queue.getQueueName())::peekMessage);

        QueueServiceClient wrong = builder().endpoint(service.getQueueServiceUrl())
            .credential(new StorageSharedKeyCredential(service.getAccountName(), "d3Jvbmcga2V5")).buildClient();
        refused(403, "AuthenticationFailed", "Server failed to authenticate the request.",
            wrong.getQueueClient(queue.getQueueName())::peekMessage);
    }

    private void properties() {
        QueueRetentionPolicy retention = new QueueRetentionPolicy().setEnabled(true).setDays(5);
        QueueRetentionPolicy none = new QueueRetentionPolicy().setEnabled(false);
        QueueAnalyticsLogging logging = new QueueAnalyticsLogging().setVersion("1.0")
            .setRead(true).setWrite(true).setDelete(true).setRetentionPolicy(retention);
        QueueMetrics metrics = new QueueMetrics().setVersion("1.0").setEnabled(true).setIncludeApis(true).setRetentionPolicy(retention);
        QueueMetrics off = new QueueMetrics().setVersion("1.0").setEnabled(false).setRetentionPolicy(none);
        QueueCorsRule rule = new QueueCorsRule().setAllowedOrigins("http://a.example,http://b.example").setAllowedMethods("GET,PUT")
            .setAllowedHeaders("x-ms-meta-*,x-ms-meta-one").setExposedHeaders("*").setMaxAgeInSeconds(500);
        service.setProperties(new QueueServiceProperties()
            .setAnalyticsLogging(logging).setHourMetrics(metrics).setMinuteMetrics(off).setCors(List.of(rule)));
        QueueServiceProperties read = service.getProperties();
        Main.equal(read.getAnalyticsLogging().isRead(), true);
        Main.equal(List.of(read.getHourMetrics().isEnabled(), read.getMinuteMetrics().isEnabled()), List.of(true, false));
        Main.equal(read.getHourMetrics().getRetentionPolicy().getDays(), 5);
        QueueCorsRule kept = read.getCors().get(0);
        // Q-9.1a: names before prefixes.
        Main.equal(List.of(kept.getAllowedOrigins(), kept.getAllowedHeaders(), kept.getMaxAgeInSeconds()),
            List.of("http://a.example,http://b.example", "x-ms-meta-one,x-ms-meta-*", 500));
        refused(400, "InvalidXmlDocument", "", () -> service.setProperties(new QueueServiceProperties()
            .setHourMetrics(off).setMinuteMetrics(off).setCors(Collections.nCopies(6, rule))));
        logging.setRead(false).setWrite(false).setDelete(false).setRetentionPolicy(none);
        service.setProperties(new QueueServiceProperties()
            .setAnalyticsLogging(logging).setHourMetrics(off).setMinuteMetrics(off).setCors(List.of()));
        Main.equal(service.getProperties().getCors(), List.of());
    }

    private void secondary() {
        // No statistics: this SDK waits for another root element than the service sends.
        String key = connection.replaceAll(".*AccountKey=([^;]+).*", "$1");
        QueueServiceClient secondary = builder().endpoint(service.getQueueServiceUrl() + "-secondary")
            .credential(new StorageSharedKeyCredential(service.getAccountName(), key)).buildClient();
        QueueClient reader = secondary.getQueueClient(queue.getQueueName());
        queue.sendMessage("x");
        Main.equal(peeked(reader), List.of("x"));
        refused(403, "InsufficientAccountPermissions", "", () -> reader.sendMessage("y"));
        refused(403, "InsufficientAccountPermissions", "", reader::receiveMessage);
    }

    /** A client of the case's queue with a token in place of the key. */
    private QueueClient with(String token) {
        return builder().endpoint(service.getQueueServiceUrl()).sasToken(token).buildClient().getQueueClient(queue.getQueueName());
    }

    private QueueServiceClient account(String permissions, String types) {
        String token = service.generateAccountSas(new AccountSasSignatureValues(
            soon(), AccountSasPermission.parse(permissions), AccountSasService.parse("q"), AccountSasResourceType.parse(types)));
        return builder().endpoint(service.getQueueServiceUrl()).sasToken(token).buildClient();
    }

    private static OffsetDateTime soon() {
        return OffsetDateTime.now(ZoneOffset.UTC).truncatedTo(ChronoUnit.SECONDS).plusHours(1);
    }

    private SendMessageResult send(String text, Duration delay, Duration life) {
        return queue.sendMessageWithResponse(text, delay, life, null, Context.NONE).getValue();
    }

    /** Dequeues up to 32 messages and hides them for ten minutes. */
    private List<QueueMessageItem> take() {
        return queue.receiveMessages(32, HIDDEN, null, Context.NONE).stream().toList();
    }

    private int count() {
        return queue.getProperties().getApproximateMessagesCount();
    }

    private static List<String> peeked(QueueClient queue) {
        return queue.peekMessages(32, null, Context.NONE).stream().map(Queues::text).toList();
    }

    private static String text(QueueMessageItem message) {
        return message.getBody().toString();
    }

    private static String text(PeekedMessageItem message) {
        return message.getBody().toString();
    }

    private static void refused(int status, String code, String text, Runnable attempt) {
        try {
            attempt.run();
        } catch (QueueStorageException error) {
            Main.equal(error.getStatusCode() + " " + error.getErrorCode(), status + " " + code);
            Main.equal(error.getServiceMessage().contains(text) ? text : error.getServiceMessage(), text);
            return;
        }
        throw new AssertionError("accepted, where " + status + " " + code + " was due");
    }
}
