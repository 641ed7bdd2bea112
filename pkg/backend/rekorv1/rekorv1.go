// Package rekorv1 retrieves from a Rekor v1 log the entry that a legacy
// signature lacks, and stores the answer for later runs; and reads all entries
// of a log, for who follows it.
//
//	log, err := rekorv1.Open("https://log.example.org", rt)
//	kept, err := rekorv1.OpenEvidence("evidence")
//	f := rekorv1.Finder{Log: log, Evidence: kept}
//	e, err := f.Prove(ctx, material, func(bundle []byte) (verify.Evidence, error) {
//		return verifier.Blob(bundle, digests)
//	})
//
// A log's answer is only a claim. Its entry must be for this artifact, this
// signature and this certificate; then pkg/judge/verify verifies it like an
// entry that came with the signature. Only verified answers are stored.
//
// API: Rekor v1, openapi.yaml.
//
// Other projects should not import this package: it changes without notice.
package rekorv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	maxAnswer = 32 << 20
	maxFound  = 200 // entries of one artifact that are examined
)

// Log is a Rekor v1 log.
type Log struct {
	address string
	client  *http.Client
}

// Open returns the log at address: https, or http on this machine. Nothing is
// requested yet.
func Open(address string, rt http.RoundTripper) (*Log, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "log", err)
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, verdict.Refuse(verdict.Usage, "log", "%q is not the https address of a log", address)
	}
	// The POST requests used here change nothing, so they may be repeated.
	return &Log{address: strings.TrimSuffix(address, "/"), client: transport.Client(transport.Repeatable(rt))}, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Find retrieves the entry of a signature. It returns the log's unchanged
// answer, and m completed with it. The first request is for the entry whose
// name is computed from the signature: other entries cannot hide that one. If
// it does not exist, Find searches by the digest of the signed bytes.
func (l *Log) Find(ctx context.Context, m legacy.Material) (answer []byte, found legacy.Material, err error) {
	s := &search{material: m, named: true}
	if name := m.EntryName(); name != "" {
		if err := l.retrieve(ctx, s, []string{name}); err != nil || s.answer != nil {
			return s.answer, s.found, err
		}
	}
	s.named = false
	var names []string
	if err := l.post(ctx, "/api/v1/index/retrieve", map[string]string{"hash": m.Signed().String()}, &names); err != nil {
		return nil, legacy.Material{}, err
	}
	if len(names) > maxFound {
		return nil, legacy.Material{}, verdict.Refuse(verdict.Limit, "log", "%d entries for this digest, the limit is %d", len(names), maxFound)
	}
	for asked := range slices.Chunk(names, Batch) {
		if err := l.retrieve(ctx, s, asked); err != nil || s.answer != nil {
			return s.answer, s.found, err
		}
	}
	if s.nearest != nil { // no entry is for the signature
		return nil, legacy.Material{}, s.nearest
	}
	return nil, legacy.Material{}, verdict.Refuse(verdict.LogMissing, "signature", "the log %s has no entry for this signature", l.address)
}

// search is the state of one [Log.Find].
type search struct {
	material legacy.Material
	named    bool   // asked by the name that is computed from the signature
	answer   []byte // nil until found
	found    legacy.Material
	nearest  error // why the most similar entry does not match
}

// remember keeps the most specific refusal: of the signature's entry in another
// form, then of another signature of the artifact, then any other.
func (s *search) remember(err error) {
	rank := func(err error) int {
		switch verdict.FindingOf("", err).Code {
		case verdict.LogKeyMismatch:
			return 3
		case verdict.LogSigMismatch:
			return 2
		}
		return 1
	}
	if s.nearest == nil || rank(err) > rank(s.nearest) || rank(err) == 3 {
		s.nearest = err
	}
}

// retrieve requests entries by name until one matches the signature.
func (l *Log) retrieve(ctx context.Context, s *search, names []string) error {
	var answers []json.RawMessage
	if err := l.post(ctx, "/api/v1/log/entries/retrieve", map[string][]string{"entryUUIDs": names}, &answers); err != nil {
		return err
	}
	if len(answers) > len(names) {
		return verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the log returned %d entries, requested: %d", len(answers), len(names))
	}
	for _, raw := range answers {
		if err := s.consider(raw, names); err != nil || s.answer != nil {
			return err
		}
	}
	return nil
}

// consider accepts an answer if it matches the signature. In a public log
// anyone may enter anything under the digest of an artifact, in any form: an
// entry found by a search is skipped if it cannot be read or is for another
// artifact. An entry that was not requested, or does not match its computed
// name, is refused: the answer of the log is wrong.
func (s *search) consider(raw []byte, names []string) error {
	name, entry, err := legacy.ParseAnswer(raw)
	var refused *verdict.Error
	if errors.As(err, &refused) && !s.named {
		s.remember(err)
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(names, func(asked string) bool { return leafOf(asked) == leafOf(name) }) {
		return verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the log returned entry %s, which was not requested", name)
	}
	found, err := s.material.With(entry)
	unbound := errors.As(err, &refused) && refused.Finding.Code == verdict.LogEntryUnbound
	switch {
	case err == nil:
		s.answer, s.found = raw, found
	case refused == nil, unbound && s.named && refused.Finding.Got != "":
		return err
	case unbound && refused.Finding.Got == "": // of a kind that no such signature has
	default:
		s.remember(err)
	}
	return nil
}

// leafOf removes the name of the tree from an entry's name.
func leafOf(name string) string { return name[max(0, len(name)-64):] }

// post sends one question to the API.
func (l *Log) post(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("asking the log: %w", err)
	}
	return l.ask(ctx, http.MethodPost, path, body, answer)
}

// ask sends one request to the API.
func (l *Log) ask(ctx context.Context, method, path string, body []byte, answer any) error {
	failed := &verdict.UnavailableError{Place: l.address, Op: "asking the log"}
	request, err := http.NewRequestWithContext(ctx, method, l.address+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking the log: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := l.client.Do(request)
	if err != nil {
		failed.Err = err
		return failed
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		failed.Err = err
		return failed
	case response.StatusCode != http.StatusOK:
		failed.Err = fmt.Errorf("status %s: %.200q", response.Status, raw)
		return failed
	case len(raw) > maxAnswer:
		return verdict.Refuse(verdict.Limit, "log", "the answer has more than %d bytes", maxAnswer)
	}
	if err := strictjson.UnmarshalOpen(raw, answer, strictjson.MaxSize(maxAnswer)); err != nil {
		return verdict.Wrap(verdict.LogEntryParse, "log", err)
	}
	return nil
}
