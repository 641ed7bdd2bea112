package lab_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/test/lab"
)

// signV1 signs content with an entry in the version 1 log.
func signV1(l *lab.Lab, content sign.Content) (*bundle.Bundle, error) {
	key, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, err
	}
	pb, err := sign.Bundle(content, key, sign.BundleOptions{
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: l.Token(lab.RoleRelease)},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: l.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: l.RekorV1, Version: 1})},
	})
	if err != nil {
		return nil, err
	}
	b, err := protojson.Marshal(pb)
	if err != nil {
		return nil, err
	}
	var out bundle.Bundle
	return &out, out.UnmarshalJSON(b)
}

func TestRekorV1(t *testing.T) {
	dir := t.TempDir()
	l, err := lab.Start(t.Context(), lab.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	issuer, subject := l.Identity(lab.RoleRelease)
	for i, content := range []sign.Content{
		&sign.PlainData{Data: []byte("x")},
		&sign.DSSEData{Data: statement("a", []byte("x")), PayloadType: inTotoPayload},
		&sign.PlainData{Data: []byte("x")},
	} {
		b, err := signV1(l, content)
		if err != nil {
			t.Fatalf("signing %T: %v", content, err)
		}
		entries, err := b.TlogEntries()
		if err != nil {
			t.Fatal(err)
		}
		if !entries[0].HasInclusionPromise() || !entries[0].HasInclusionProof() || entries[0].LogIndex() != int64(i) {
			t.Errorf("entry %d: promise %t, proof %t, index %d", i, entries[0].HasInclusionPromise(), entries[0].HasInclusionProof(), entries[0].LogIndex())
		}
		expect(t, check(l.TrustedRoot, b, digestOf("x"), issuer, subject), "")
		expect(t, check(l.TrustedRoot, b, digestOf("y"), issuer, subject), "digest")
	}
	before := found(t, l, "x")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections() // the next one has the same ports
	again := lab.NewWith(t, lab.Options{Dir: dir})
	// Two records of x, one attestation that names x and is found by its own
	// payload as well.
	if after := found(t, again, "x"); len(before) != 4 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("entries %v before a restart, %v after it", before, after)
	}
}

// found asks the log which entries are of content, and for each of them.
func found(t *testing.T, l *lab.Lab, content string) []string {
	t.Helper()
	var ids []string
	ask(t, l.RekorV1+"/api/v1/index/retrieve", hashQuery([]byte(content)), &ids)
	var more []string
	ask(t, l.RekorV1+"/api/v1/index/retrieve", hashQuery(statement("a", []byte(content))), &more)
	ids = append(ids, more...)
	asked, err := json.Marshal(map[string][]string{"entryUUIDs": ids})
	if err != nil {
		t.Fatal(err)
	}
	var entries []map[string]struct{ LogIndex int }
	ask(t, l.RekorV1+"/api/v1/log/entries/retrieve", string(asked), &entries)
	for i, e := range entries {
		if _, ok := e[ids[i]]; !ok {
			t.Errorf("asked for %s, got %v", ids[i], e)
		}
	}
	return ids
}

func hashQuery(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf(`{"hash":"sha256:%x"}`, sum)
}

func ask(t *testing.T, url, body string, answer any) {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", url, resp.Status, b, err)
	}
	if err := json.Unmarshal(b, answer); err != nil {
		t.Fatalf("%s: %v in %s", url, err, b)
	}
}

func TestRekorV1Refuses(t *testing.T) {
	l := lab.New(t)
	for name, body := range map[string]string{
		"no JSON":          `{`,
		"an unknown kind":  `{"apiVersion":"0.0.1","kind":"strange","spec":{}}`,
		"an empty record":  `{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{}}`,
		"a bad signature":  `{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{"signature":{"content":"AAAA","publicKey":{"content":"AAAA"}},"data":{"hash":{"algorithm":"sha256","value":"` + strings.Repeat("0", 64) + `"}}}}`,
		"another version":  `{"apiVersion":"0.0.9","kind":"hashedrekord","spec":{}}`,
		"a version 2 body": `{"hashedRekordRequestV002":{}}`,
	} {
		resp, err := http.Post(l.RekorV1+"/api/v1/log/entries", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}
