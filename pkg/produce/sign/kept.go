package sign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// The acts in a journal of signatures.
const (
	actSigned   = "signed" // and timestamped; the logs may have the signature
	actLogged   = "logged"
	actLoggedV1 = "logged in version 1"
)

// Kept stores signatures in a journal until their bundles are stored
// elsewhere. It stores no private keys, and everything is verified again
// before use: a journal proves nothing.
type Kept struct {
	journal *journal.Journal

	mu      sync.Mutex // guards what follows
	records map[string]record
	busy    map[string]chan struct{} // closed when the goroutine that signs the content is done
}

// record is what is stored about one content.
type record struct {
	made
	entries []*rekor.TransparencyLogEntry // of each log; none until logged
	answer  []byte                        // the answer of a Rekor v1 log instead
	// until is when the certificate must no longer be used, by our clock;
	// zero for the signature of an earlier run, or of a key.
	until time.Time
	// old means that an earlier run made the signature: the log may have it.
	old bool
}

// made is a signature with its proofs; the JSON of a journal entry.
type made struct {
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"` // the public key, if there is no certificate
	Signature   []byte `json:"signature"`
	// Timestamps are of each authority; none in the legacy forms.
	Timestamps [][]byte `json:"timestamps,omitempty"`
	// Timestamp is the only timestamp, in journals of older versions.
	Timestamp []byte `json:"timestamp,omitempty"`
	// Traceparent is the span that made the signature, which later runs keep.
	Traceparent string `json:"traceparent,omitempty"`
}

// logged reports whether every log has the signature.
func (r record) logged() bool { return len(r.entries) > 0 || r.answer != nil }

// Keep reads the signatures of a journal and appends new ones. The caller
// closes the journal.
func Keep(j *journal.Journal) (*Kept, error) {
	k, err := Recall(j.Entries())
	if err != nil {
		return nil, err
	}
	k.journal = j
	return k, nil
}

// Recall reads the signatures of journal entries. It stores no new ones: that
// is enough for [Signer.Due], but not for signing.
func Recall(entries []journal.Entry) (*Kept, error) {
	k := &Kept{records: map[string]record{}, busy: map[string]chan struct{}{}}
	for _, e := range entries {
		r := k.records[e.Subject]
		switch e.Act {
		case actSigned:
			r = record{old: true}
			if err := json.Unmarshal(e.Detail, &r.made); err != nil {
				return nil, fmt.Errorf("reading the journal of signatures: %q: %w", e.Subject, err)
			}
			if r.Timestamp != nil {
				r.Timestamps, r.Timestamp = [][]byte{r.Timestamp}, nil
			}
		case actLogged:
			var err error
			if r.entries, err = readLogged(e.Detail); err != nil {
				return nil, fmt.Errorf("reading the journal of signatures: %q: %w", e.Subject, err)
			}
		case actLoggedV1:
			r.answer = e.Detail
		default:
			continue
		}
		k.records[e.Subject] = r
	}
	return k, nil
}

// lock locks a content against signing by other goroutines, and returns what
// is stored about it.
func (k *Kept) lock(ctx context.Context, name string) (record, func(), error) {
	for {
		k.mu.Lock()
		other, taken := k.busy[name]
		if !taken {
			mine := make(chan struct{})
			k.busy[name] = mine
			r := k.records[name]
			k.mu.Unlock()
			return r, func() {
				k.mu.Lock()
				delete(k.busy, name)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return record{}, nil, context.Cause(ctx)
		}
	}
}

// Began is the span in which the signature of an order was made, maybe by an
// earlier run; zero if unknown.
func (s *Signer) Began(o Order) trace.Context {
	c, err := s.content(o)
	if err != nil {
		return trace.Context{}
	}
	began, err := trace.ParseTraceparent(s.config.Work.Kept.known(c.name(s.as)).Traceparent)
	if err != nil {
		return trace.Context{}
	}
	return began
}

// known is the stored record of a content; zero if there is none.
func (k *Kept) known(name string) record {
	if k == nil {
		return record{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.records[name]
}

// SignerOf returns the certificate or public key of a stored signature, by the name of its
// content, if it is of this content. Who issued the certificate is not checked.
func (k *Kept) SignerOf(name string) (certificate, key []byte) {
	m := k.known(name).made
	_, text, _ := strings.Cut(name, " sha256:")
	sum, err := hex.DecodeString(text)
	leaf, no := x509.ParseCertificate(m.Certificate)
	public, none := x509.ParsePKIXPublicKey(m.Key)
	switch {
	case err != nil || len(sum) != sha256.Size:
	case no == nil && signedBy(leaf.PublicKey, sum, m.Signature):
		return m.Certificate, nil
	case none == nil && signedBy(public, sum, m.Signature):
		return nil, m.Key
	}
	return nil, nil
}

// signed stores a signature before the log has it.
func (k *Kept) signed(ctx context.Context, name string, m made, at time.Time) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("keeping a signature: %w", err)
	}
	return k.append(ctx, journal.Entry{Time: at, Act: actSigned, Subject: name, Detail: raw}, record{made: m})
}

// logged stores the answers of the logs.
func (k *Kept) logged(ctx context.Context, name string, r record, at time.Time) error {
	if r.answer != nil {
		return k.append(ctx, journal.Entry{Time: at, Act: actLoggedV1, Subject: name, Detail: r.answer}, r)
	}
	raw, err := writeLogged(r.entries)
	if err != nil {
		return fmt.Errorf("keeping the logs' answers: %w", err)
	}
	return k.append(ctx, journal.Entry{Time: at, Act: actLogged, Subject: name, Detail: raw}, r)
}

// writeLogged writes one entry as it is, and several as a list.
func writeLogged(entries []*rekor.TransparencyLogEntry) ([]byte, error) {
	list := make([]json.RawMessage, len(entries))
	for i, e := range entries {
		raw, err := protojson.Marshal(e)
		if err != nil {
			return nil, err
		}
		list[i] = raw
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return json.Marshal(list)
}

// readLogged reads one entry, or a list of several.
func readLogged(raw []byte) (entries []*rekor.TransparencyLogEntry, err error) {
	list := []json.RawMessage{raw}
	if bytes.HasPrefix(raw, []byte("[")) {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
	}
	for _, one := range list {
		e := &rekor.TransparencyLogEntry{}
		if err := protojson.Unmarshal(one, e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// append writes an entry even if the run is being cancelled, so the signature
// is not lost.
func (k *Kept) append(ctx context.Context, e journal.Entry, r record) error {
	if k.journal == nil {
		return errors.New("keeping a signature: opened for reading only")
	}
	if err := k.journal.Append(context.WithoutCancel(ctx), e); err != nil {
		return fmt.Errorf("keeping a signature: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records[e.Subject] = r
	return nil
}
