package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
)

// queueServer is what a case of queues works with; queue is made for this case.
type queueServer struct {
	service    *azqueue.ServiceClient
	queue      *azqueue.QueueClient
	name       string
	credential *azqueue.SharedKeyCredential
}

// queueOptions ask for one attempt: a retry would hide an answer that should not have been given.
func queueOptions() *azqueue.ClientOptions {
	options := &azqueue.ClientOptions{}
	options.Retry = policy.RetryOptions{MaxRetries: -1}
	return options
}

func connectQueues(connection string) (queueServer, error) {
	settings := map[string]string{}
	for part := range strings.SplitSeq(connection, ";") {
		if name, value, found := strings.Cut(part, "="); found {
			settings[name] = value
		}
	}
	service, err := azqueue.NewServiceClientFromConnectionString(connection, queueOptions())
	if err != nil {
		return queueServer{}, err
	}
	credential, err := azqueue.NewSharedKeyCredential(settings["AccountName"], settings["AccountKey"])
	return queueServer{service: service, credential: credential}, err
}

// withQueue runs a case with a queue of its own. A case ends at the first error that must reports.
func (s queueServer) withQueue(run func(queueServer) error) (err error) {
	s.name = freshName("q")
	s.queue = s.service.NewQueueClient(s.name)
	if _, err := s.queue.Create(ctx, nil); err != nil {
		return err
	}
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case failedCall:
			err = failure.error
		default:
			panic(failure)
		}
		_, dropped := s.queue.Delete(ctx, nil)
		err = errors.Join(err, dropped)
	}()
	return run(s)
}

type failedCall struct{ error }

// must gives the answer of a call that has to succeed.
func must[T any](answer T, err error) T {
	if err != nil {
		panic(failedCall{err})
	}
	return answer
}

// fault is the error of a call that has to be refused.
func fault[T any](_ T, err error) error {
	return err
}

// account gives a client with an account signature in place of the key.
func (s queueServer) account(types sas.AccountResourceTypes, permissions sas.AccountPermissions) *azqueue.ServiceClient {
	query := must(sas.AccountSignatureValues{
		Protocol:      sas.ProtocolHTTPSandHTTP,
		ExpiryTime:    soon(),
		Permissions:   permissions.String(),
		ResourceTypes: types.String(),
	}.SignWithSharedKey(s.credential))
	return must(azqueue.NewServiceClientWithNoCredential(s.service.URL()+"?"+query.Encode(), queueOptions()))
}

// signed gives a client of the case's queue with a signature in place of the key.
func (s queueServer) signed(values sas.QueueSignatureValues) *azqueue.QueueClient {
	values.Protocol = sas.ProtocolHTTPSandHTTP
	values.QueueName = s.name
	query := must(values.SignWithSharedKey(s.credential))
	return must(azqueue.NewQueueClientWithNoCredential(s.queue.URL()+"?"+query.Encode(), queueOptions()))
}

func soon() time.Time {
	return time.Now().UTC().Truncate(time.Second).Add(time.Hour)
}

// put gives the message that the service acknowledged.
func (s queueServer) put(text string, options *azqueue.EnqueueMessageOptions) *azqueue.EnqueuedMessage {
	return must(s.queue.EnqueueMessage(ctx, text, options)).Messages[0]
}

// take dequeues up to 32 messages and hides them for ten minutes.
func (s queueServer) take() []*azqueue.DequeuedMessage {
	options := &azqueue.DequeueMessagesOptions{NumberOfMessages: number(32), VisibilityTimeout: number(600)}
	return must(s.queue.DequeueMessages(ctx, options)).Messages
}

func (s queueServer) count() int {
	return int(*must(s.queue.GetProperties(ctx, nil)).ApproximateMessagesCount)
}

// peeked gives the texts of the visible messages.
func peeked(queue *azqueue.QueueClient) []string {
	texts := []string{}
	options := &azqueue.PeekMessagesOptions{NumberOfMessages: number(32)}
	for _, message := range must(queue.PeekMessages(ctx, options)).Messages {
		texts = append(texts, *message.MessageText)
	}
	return texts
}

func taken(messages []*azqueue.DequeuedMessage) []string {
	texts := []string{}
	for _, message := range messages {
		texts = append(texts, *message.MessageText)
	}
	return texts
}

func number(value int32) *int32 {
	return &value
}

func numbers(count int) []string {
	texts := []string{}
	for n := range count {
		texts = append(texts, fmt.Sprint(n))
	}
	return texts
}
