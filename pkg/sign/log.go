package sign

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxLogResponse bounds what a log may answer.
const maxLogResponse = 1 << 20

// logClient adds entries to a Rekor v2 log. The log's own client cannot be
// given a transport, and no request of ours leaves by another way.
type logClient struct {
	address string
	client  *http.Client
}

func newLogClient(address string, t http.RoundTripper) *logClient {
	return &logClient{address: address, client: &http.Client{Transport: t}}
}

// Add submits one hashedrekord entry and returns the log's proof.
func (l *logClient) Add(ctx context.Context, entry any) (*rekor.TransparencyLogEntry, error) {
	record, ok := entry.(*tiles.HashedRekordRequestV002)
	if !ok {
		return nil, fmt.Errorf("adding log entry: unexpected entry %T", entry)
	}
	body, err := protojson.Marshal(&tiles.CreateEntryRequest{
		Spec: &tiles.CreateEntryRequest_HashedRekordRequestV002{HashedRekordRequestV002: record},
	})
	if err != nil {
		return nil, fmt.Errorf("adding log entry: %w", err)
	}
	endpoint, err := url.JoinPath(l.address, "/api/v2/log/entries")
	if err != nil {
		return nil, fmt.Errorf("adding log entry: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("adding log entry: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	return l.do(request)
}

func (l *logClient) do(request *http.Request) (*rekor.TransparencyLogEntry, error) {
	response, err := l.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("adding log entry: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxLogResponse))
	if err != nil {
		return nil, fmt.Errorf("reading the log's answer: %w", err)
	}
	if response.StatusCode != http.StatusCreated {
		return nil, fmt.Errorf("adding log entry: the log answered %s: %.200q", response.Status, answer)
	}
	var proof rekor.TransparencyLogEntry
	if err := protojson.Unmarshal(answer, &proof); err != nil {
		return nil, fmt.Errorf("reading the log's answer: %w", err)
	}
	return &proof, nil
}
