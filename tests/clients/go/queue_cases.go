package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
)

var queueCases = []testCase[queueServer]{
	{"queues_are_created_listed_and_deleted", listQueues},
	{"metadata_is_replaced_as_a_whole", queueMetadata},
	{"a_message_is_put_got_updated_and_deleted", messageLife},
	{"messages_are_delayed_counted_and_cleared", messageTimes},
	{"texts_come_back_as_sent", messageTexts},
	{"policies_give_and_take_away", queuePolicies},
	{"tokens_open_what_they_say", queueTokens},
	{"service_properties_are_kept_section_by_section", queueServiceProperties},
	{"the_secondary_has_the_statistics", queueStatistics},
}

const noMessage = "The specified message does not exist."

func listQueues(s queueServer) error {
	stem := freshName("go")
	names := []string{}
	for n := range 5 {
		name := fmt.Sprintf("%s-%d", stem, n)
		names = append(names, name)
		metadata := map[string]*string{"n": to.Ptr(fmt.Sprint(n))}
		must(s.service.CreateQueue(ctx, name, &azqueue.CreateOptions{Metadata: metadata}))
	}
	pages, metadata := [][]string{}, ""
	pager := s.service.NewListQueuesPager(&azqueue.ListQueuesOptions{
		Prefix: &stem, MaxResults: number(2), Include: azqueue.ListQueuesInclude{Metadata: true},
	})
	for pager.More() {
		page := must(pager.NextPage(ctx))
		listed := []string{}
		for _, queue := range page.Queues {
			listed = append(listed, *queue.Name)
			for name, value := range queue.Metadata {
				metadata += name + *value
			}
		}
		pages = append(pages, listed)
	}
	missing := s.service.NewQueueClient(freshName("q"))
	conflict := fault(s.service.CreateQueue(ctx, names[0], nil))
	for _, name := range names {
		must(s.service.DeleteQueue(ctx, name, nil))
	}
	return errors.Join(
		equal(pages, [][]string{names[:2], names[2:4], names[4:]}),
		equal(strings.ToLower(metadata), "n0n1n2n3n4"),
		refused(conflict, 409, "QueueAlreadyExists", "The specified queue already exists."),
		refused(fault(s.service.DeleteQueue(ctx, names[0], nil)), 404, "QueueNotFound", "The specified queue does not exist."),
		refused(fault(missing.GetProperties(ctx, nil)), 404, "QueueNotFound", ""),
		refused(fault(missing.EnqueueMessage(ctx, "x", nil)), 404, "QueueNotFound", ""),
		refused(fault(missing.DequeueMessage(ctx, nil)), 404, "QueueNotFound", ""),
		refused(fault(s.service.CreateQueue(ctx, "Upper", nil)), 400, "InvalidResourceName", "The specifed resource name"),
		refused(fault(s.service.CreateQueue(ctx, "ab", nil)), 400, "OutOfRangeInput", ""),
	)
}

func queueMetadata(s queueServer) error {
	set := func(pairs map[string]string) {
		metadata := map[string]*string{}
		for name, value := range pairs {
			metadata[name] = &value
		}
		must(s.queue.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: metadata}))
	}
	holds := func(pairs map[string]string) error {
		found := map[string]string{}
		for name, value := range must(s.queue.GetProperties(ctx, nil)).Metadata {
			// Go's headers have a case of their own.
			found[strings.ToLower(name)] = *value
		}
		return equal(found, pairs)
	}
	for _, pairs := range []map[string]string{{"color": "deep blue", "n1": "5"}, {"shape": "round"}, {}} {
		set(maps.Clone(pairs))
		if err := holds(pairs); err != nil {
			return err
		}
	}
	wrong := &azqueue.SetMetadataOptions{Metadata: map[string]*string{"12345": to.Ptr("x")}}
	return refused(fault(s.queue.SetMetadata(ctx, wrong)), 400, "InvalidMetadata", "")
}

func messageLife(s queueServer) error {
	put := s.put("first", nil)
	seen := must(s.queue.PeekMessage(ctx, nil)).Messages[0]
	got := s.take()[0]
	hidden := errors.Join(equal(len(s.take()), 0), equal(peeked(s.queue), []string{}), equal(s.count(), 1))
	now := &azqueue.UpdateMessageOptions{VisibilityTimeout: number(0)}
	updated := must(s.queue.UpdateMessage(ctx, *got.MessageID, *got.PopReceipt, "second", now))
	again := s.take()[0]
	// a receipt before the newest is stale, and that is 404.
	stale := []error{}
	for _, receipt := range []string{*put.PopReceipt, *got.PopReceipt, *updated.PopReceipt} {
		err := fault(s.queue.DeleteMessage(ctx, *got.MessageID, receipt, nil))
		stale = append(stale, refused(err, 404, "MessageNotFound", noMessage))
	}
	malformed := fault(s.queue.DeleteMessage(ctx, *got.MessageID, *again.PopReceipt+"Random", nil))
	must(s.queue.DeleteMessage(ctx, *again.MessageID, *again.PopReceipt, nil))
	return errors.Join(
		equal(put.ExpirationTime.Sub(*put.InsertionTime), 7*24*time.Hour),
		equal(*put.TimeNextVisible, *put.InsertionTime),
		equal([]any{*seen.MessageID, *seen.MessageText, *seen.DequeueCount}, []any{*put.MessageID, "first", int64(0)}),
		equal([]any{*got.MessageID, *got.MessageText, *got.DequeueCount}, []any{*put.MessageID, "first", int64(1)}),
		hidden,
		equal([]any{*again.MessageID, *again.MessageText, *again.DequeueCount}, []any{*put.MessageID, "second", int64(2)}),
		errors.Join(stale...),
		refused(malformed, 400, "InvalidQueryParameterValue", "<Reason>Invalid pop receipt format</Reason>"),
		refused(fault(s.queue.DeleteMessage(ctx, *again.MessageID, *again.PopReceipt, nil)), 404, "MessageNotFound", noMessage),
		equal(s.count(), 0),
	)
}

func messageTimes(s queueServer) error {
	hour, never := number(3600), number(-1)
	late := s.put("late", &azqueue.EnqueueMessageOptions{VisibilityTimeout: hour, TimeToLive: never})
	sent := numbers(40)
	for _, text := range sent {
		s.put(text, nil)
	}
	first, second := s.take(), s.take()
	receipts := map[string]bool{}
	for _, message := range first {
		receipts[*message.PopReceipt] = true
	}
	before := s.count()
	// The receipt of Put Message is good until the message is dequeued.
	now := &azqueue.UpdateMessageOptions{VisibilityTimeout: number(0)}
	must(s.queue.UpdateMessage(ctx, *late.MessageID, *late.PopReceipt, "now", now))
	visible := peeked(s.queue)
	must(s.queue.ClearMessages(ctx, nil))
	many := &azqueue.DequeueMessagesOptions{NumberOfMessages: number(33)}
	equalTimes := &azqueue.EnqueueMessageOptions{VisibilityTimeout: number(30), TimeToLive: number(30)}
	return errors.Join(
		equal(late.TimeNextVisible.Sub(*late.InsertionTime), time.Hour),
		equal(late.ExpirationTime.Format(time.RFC3339), "9999-12-31T23:59:59Z"),
		equal(append(taken(first), taken(second)...), sent),
		// One Get gives one receipt to all its messages.
		equal([]int{len(first), len(receipts)}, []int{32, 1}),
		equal(before, 41),
		equal(visible, []string{"now"}),
		equal(s.count(), 0),
		refused(fault(s.queue.DeleteMessage(ctx, *first[0].MessageID, *first[0].PopReceipt, nil)), 404, "MessageNotFound", noMessage),
		refused(fault(s.queue.DequeueMessages(ctx, many)), 400, "OutOfRangeQueryParameterValue", "<MaximumAllowed>32</MaximumAllowed>"),
		refused(fault(s.queue.EnqueueMessage(ctx, "x", equalTimes)), 400, "InvalidQueryParameterValue", "messagettl must be greater than visibilitytimeout"),
	)
}

func messageTexts(s queueServer) error {
	sent := []string{
		"<tag attribute=\"'\">&amp; & ]]> <!-- no --></tag>",
		"ô 日本語 😀",
		"  spaces\tand tabs\nand lines  ",
		base64.StdEncoding.EncodeToString([]byte{0, 1, 254, 255}),
		"",
		strings.Repeat("é", 32768),
		// This SDK escapes carriage returns, so they stay.
		"cr\r\nlf",
	}
	for _, text := range sent {
		s.put(text, nil)
	}
	large := fault(s.queue.EnqueueMessage(ctx, strings.Repeat("a", 65537), nil))
	return errors.Join(
		equal(peeked(s.queue), sent),
		equal(taken(s.take()), sent),
		refused(large, 413, "RequestBodyTooLarge", "<MaxLimit>65536</MaxLimit>"),
	)
}

func queuePolicies(s queueServer) error {
	set := func(permission string) {
		policies := []*azqueue.SignedIdentifier{}
		if permission != "" {
			policy := &azqueue.AccessPolicy{Permission: &permission, Start: to.Ptr(time.Unix(0, 0)), Expiry: to.Ptr(soon())}
			policies = append(policies, &azqueue.SignedIdentifier{ID: to.Ptr("worker"), AccessPolicy: policy})
		}
		must(s.queue.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{QueueACL: policies}))
	}
	set("r")
	kept := must(s.queue.GetAccessPolicy(ctx, nil)).SignedIdentifiers
	worker := s.signed(sas.QueueSignatureValues{Identifier: "worker"})
	empty := peeked(worker)
	closed := fault(worker.EnqueueMessage(ctx, "x", nil))
	set("ap")
	must(worker.EnqueueMessage(ctx, "x", nil))
	set("")
	revoked := fault(worker.EnqueueMessage(ctx, "x", nil))
	return errors.Join(
		equal([]any{len(kept), *kept[0].ID, *kept[0].AccessPolicy.Permission}, []any{1, "worker", "r"}),
		equal(kept[0].AccessPolicy.Start.UTC(), time.Unix(0, 0).UTC()),
		equal(empty, []string{}),
		refused(closed, 403, "AuthorizationPermissionMismatch", "using this permission."),
		refused(revoked, 403, "AuthenticationFailed", ""),
		equal(len(must(s.queue.GetAccessPolicy(ctx, nil)).SignedIdentifiers), 0),
		equal(peeked(s.queue), []string{"x"}),
	)
}

func queueTokens(s queueServer) error {
	read := sas.QueuePermissions{Read: true}
	reader := s.signed(sas.QueueSignatureValues{Permissions: read.String(), ExpiryTime: soon()})
	late := s.signed(sas.QueueSignatureValues{Permissions: read.String(), ExpiryTime: time.Unix(0, 0)})
	// A token of the client itself is for https alone.
	https := must(azqueue.NewQueueClientWithNoCredential(must(s.queue.GetSASURL(read, soon(), nil)), queueOptions()))
	all := sas.AccountResourceTypes{Service: true, Container: true, Object: true}
	full := s.account(all, sas.AccountPermissions{
		Read: true, Write: true, Delete: true, List: true, Add: true, Create: true, Update: true, Process: true,
	})
	name := freshName("q")
	must(full.CreateQueue(ctx, name, nil))
	queue := full.NewQueueClient(name)
	put := must(queue.EnqueueMessage(ctx, "x", nil)).Messages[0]
	updated := must(queue.UpdateMessage(ctx, *put.MessageID, *put.PopReceipt, "y", nil))
	must(queue.DeleteMessage(ctx, *put.MessageID, *updated.PopReceipt, nil))
	policies := fault(queue.GetAccessPolicy(ctx, nil))
	must(full.DeleteQueue(ctx, name, nil))
	lister := s.account(sas.AccountResourceTypes{Service: true}, sas.AccountPermissions{List: true})
	page := must(lister.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &s.name}).NextPage(ctx))
	wrong := must(azqueue.NewSharedKeyCredential("devstoreaccount1", "d3Jvbmcga2V5"))
	stranger := must(azqueue.NewQueueClientWithSharedKeyCredential(s.queue.URL(), wrong, queueOptions()))
	return errors.Join(
		equal(peeked(reader), []string{}),
		refused(fault(reader.DequeueMessage(ctx, nil)), 403, "AuthorizationPermissionMismatch", ""),
		refused(fault(reader.ClearMessages(ctx, nil)), 403, "AuthorizationFailure", ""),
		refused(fault(late.PeekMessage(ctx, nil)), 403, "AuthenticationFailed", ""),
		refused(fault(https.PeekMessage(ctx, nil)), 403, "AuthorizationProtocolMismatch", ""),
		refused(policies, 403, "AuthorizationFailure", ""),
		equal(len(page.Queues), 1),
		refused(fault(lister.NewQueueClient(s.name).PeekMessage(ctx, nil)), 403, "AuthorizationResourceTypeMismatch", ""),
		refused(fault(stranger.PeekMessage(ctx, nil)), 403, "AuthenticationFailed", "Server failed to authenticate the request."),
	)
}

func queueServiceProperties(s queueServer) error {
	retention := &azqueue.RetentionPolicy{Enabled: to.Ptr(true), Days: number(5)}
	metrics := &azqueue.Metrics{Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true), RetentionPolicy: retention}
	off := &azqueue.Metrics{Enabled: to.Ptr(false), RetentionPolicy: &azqueue.RetentionPolicy{Enabled: to.Ptr(false)}}
	rule := &azqueue.CORSRule{
		AllowedOrigins: to.Ptr("http://a.example,http://b.example"), AllowedMethods: to.Ptr("GET,PUT"),
		AllowedHeaders: to.Ptr("x-ms-meta-*,x-ms-meta-one"), ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: number(500),
	}
	must(s.service.SetProperties(ctx, &azqueue.SetPropertiesOptions{HourMetrics: metrics, CORS: []*azqueue.CORSRule{rule}}))
	must(s.service.SetProperties(ctx, &azqueue.SetPropertiesOptions{MinuteMetrics: metrics}))
	read := must(s.service.GetServiceProperties(ctx, nil))
	six := []*azqueue.CORSRule{rule, rule, rule, rule, rule, rule}
	many := fault(s.service.SetProperties(ctx, &azqueue.SetPropertiesOptions{CORS: six}))
	must(s.service.SetProperties(ctx, &azqueue.SetPropertiesOptions{HourMetrics: off, MinuteMetrics: off, CORS: []*azqueue.CORSRule{}}))
	return errors.Join(
		equal([]bool{*read.HourMetrics.Enabled, *read.HourMetrics.IncludeAPIs, *read.MinuteMetrics.Enabled}, []bool{true, true, true}),
		equal(*read.HourMetrics.RetentionPolicy.Days, int32(5)),
		equal(len(read.CORS), 1),
		equal(*read.CORS[0].AllowedOrigins, "http://a.example,http://b.example"),
		// Q-9.1a: names before prefixes.
		equal(*read.CORS[0].AllowedHeaders, "x-ms-meta-one,x-ms-meta-*"),
		refused(many, 400, "InvalidXmlDocument", ""),
	)
}

func queueStatistics(s queueServer) error {
	address := strings.TrimSuffix(s.service.URL(), "/") + "-secondary"
	secondary := must(azqueue.NewServiceClientWithSharedKeyCredential(address, s.credential, queueOptions()))
	stats := must(secondary.GetStatistics(ctx, nil))
	reader := secondary.NewQueueClient(s.name)
	return errors.Join(
		equal(string(*stats.GeoReplication.Status), "live"),
		equal(stats.GeoReplication.LastSyncTime.IsZero(), false),
		equal(peeked(reader), []string{}),
		refused(fault(reader.EnqueueMessage(ctx, "x", nil)), 403, "InsufficientAccountPermissions", ""),
	)
}
