package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
)

func known(t testing.TB, name string) (material, *Verifier) {
	t.Helper()
	read := func(file string) []byte {
		raw, err := os.ReadFile(filepath.Join("testdata", "genuine", name, file))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	material, err := root.NewTrustedRootFromJSON(read("trusted_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := parse(read("bundle.sigstore.json"), &memory{})
	if err != nil {
		t.Fatal(err)
	}
	return m, &Verifier{material: material, rules: Default(), seen: newMemory(material)}
}

// The bodies that this package expects are those that logs write, and nothing
// that is of something else is taken for expected.
func TestExpectedEntries(t *testing.T) {
	for name, unread := range map[string]bool{"blob": true, "blob-rekor-v1": true, "attestation": true, "attestation-rekor-v1": true, "blob-key": false, "attestation-key": false} {
		m, v := known(t, name)
		if m.unread != unread {
			t.Errorf("%s: unread %t, want %t", name, m.unread, unread)
		}
		if _, ok := asExpected(m, 1, v.seen); ok != unread {
			t.Errorf("%s: proven as expected %t, want %t", name, ok, unread)
		}
		if !unread {
			continue
		}
		if _, ok := asExpected(m, 2, v.seen); ok {
			t.Errorf("%s: one entry counts as two", name)
		}
		entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
		body := entry.GetCanonicalizedBody()
		for i := range body {
			entry.CanonicalizedBody = bytes.Clone(body)
			entry.CanonicalizedBody[i] ^= 1
			sent := bytes.HasPrefix(body, []byte(headEnvelope)) && i >= len(headEnvelope) && i < len(headEnvelope)+64
			if m.isExpected(entry) != (sent && isHex(entry.CanonicalizedBody[i:i+1])) {
				t.Fatalf("%s: a body with byte %d changed is expected", name, i)
			}
		}
	}
}

// A chain serves a certificate within its window, and no other certificate.
func TestRememberedChain(t *testing.T) {
	m, v := known(t, "blob")
	inside := m.leaf.NotBefore.Add(time.Minute)
	ask := func(leaf *x509.Certificate, at ...time.Time) error {
		found, err := chained(leaf, v.material, at, v.seen)
		if err != nil {
			return err
		}
		return published(found, v.material, 1, v.seen)
	}
	if err := ask(m.leaf, inside); err != nil {
		t.Fatal(err)
	}
	if found, ok := v.seen.chains.find(m.leaf.Raw); !ok || !found.seen {
		t.Error("nothing was remembered")
	}
	unseen, err := chained(m.leaf, v.material, []time.Time{inside}, newMemory(v.material))
	if err != nil {
		t.Fatal(err)
	}
	if unseen.seen || published(unseen, v.material, 2, newMemory(v.material)) == nil {
		t.Error("a certificate is seen by two logs before one was asked")
	}
	if err := ask(m.leaf, m.leaf.NotBefore, m.leaf.NotAfter); err != nil {
		t.Errorf("both ends of its life: %v", err)
	}
	for what, at := range map[string]time.Time{"before": m.leaf.NotBefore.Add(-time.Second), "after": m.leaf.NotAfter.Add(time.Second)} {
		if ask(m.leaf, at) == nil || ask(m.leaf, inside, at) == nil {
			t.Errorf("a time %s its life is taken from memory", what)
		}
	}
	forged := *m.leaf
	forged.Raw = bytes.Clone(m.leaf.Raw)
	forged.Raw[len(forged.Raw)-1] ^= 1
	forged.Signature = forged.Raw[len(forged.Raw)-len(m.leaf.Signature):]
	if ask(&forged, inside) == nil {
		t.Error("a certificate with another signature is taken from memory")
	}
}

// house is a chain of authorities with one signer below.
type house struct {
	authority *root.FulcioCertificateAuthority
	below     *x509.Certificate
	key       *ecdsa.PrivateKey // of the intermediate
}

var day0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func issueTo(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		parent, by = template, key
	}
	template.SerialNumber = big.NewInt(7)
	if template.NotBefore.IsZero() {
		template.NotBefore, template.NotAfter = day0, day0.AddDate(1, 0, 0)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
}

func signer(name string) *x509.Certificate {
	return &x509.Certificate{EmailAddresses: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, KeyUsage: x509.KeyUsageDigitalSignature}
}

func newHouse(t *testing.T, change func(top *x509.Certificate)) house {
	t.Helper()
	top := authority("root")
	change(top)
	parent, key := issueTo(t, top, nil, nil)
	between, betweenKey := issueTo(t, authority("intermediate"), parent, key)
	return house{&root.FulcioCertificateAuthority{Root: parent, Intermediates: []*x509.Certificate{between}}, between, betweenKey}
}

func (h house) FulcioCertificateAuthorities() []root.CertificateAuthority {
	return []root.CertificateAuthority{h.authority}
}

// trusting is a trust root of one house.
type trusting struct {
	root.BaseTrustedMaterial
	house
}

func (r *trusting) FulcioCertificateAuthorities() []root.CertificateAuthority {
	return r.house.FulcioCertificateAuthorities()
}

// A proven authority spares the next signer its part of the chain, and no
// other check: each row changes one fact, and is refused by a memory that has
// proven the authority as by one that has not.
func TestRememberedAuthority(t *testing.T) {
	plain := newHouse(t, func(*x509.Certificate) {})
	stranger := newHouse(t, func(*x509.Certificate) {})
	narrow := newHouse(t, func(c *x509.Certificate) { c.PermittedEmailAddresses = []string{"example.test"} })
	late := newHouse(t, func(*x509.Certificate) {})
	late.authority.ValidityPeriodEnd = day0.AddDate(0, 1, 0)
	at := day0.AddDate(0, 0, 1)
	rows := []struct {
		name   string
		house  house
		leaf   *x509.Certificate
		by     house
		at     time.Time
		ok     bool
		anchor bool
	}{
		{"a signer", plain, signer("a@example.test"), plain, at, true, true},
		{"a signer of an authority of the same name", plain, signer("a@example.test"), stranger, at, false, true},
		{"a certificate for something else", plain, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, plain, at, false, true},
		{"before the authority's life", plain, signer("a@example.test"), plain, day0.Add(-time.Second), false, true},
		{"after the authority's life", plain, signer("a@example.test"), plain, day0.AddDate(1, 0, 1), false, true},
		{"within the trust root's window", late, signer("a@example.test"), late, at, true, true},
		{"after the trust root's window", late, signer("a@example.test"), late, day0.AddDate(0, 2, 0), false, true},
		{"a name that the root allows", narrow, signer("b@example.test"), narrow, at, true, false},
		{"a name that the root does not allow", narrow, signer("b@elsewhere.test"), narrow, at, false, false},
	}
	for _, r := range rows {
		trusted := &trusting{house: r.house}
		first, _ := issueTo(t, signer("first@example.test"), r.house.below, r.house.key)
		leaf := r.leaf
		leaf.NotBefore, leaf.NotAfter = day0.AddDate(-1, 0, 0), day0.AddDate(2, 0, 0)
		next, _ := issueTo(t, leaf, r.by.below, r.by.key)
		warm := &memory{}
		if _, err := issue(first, trusted, at, warm); err != nil {
			t.Fatalf("%s: the first: %v", r.name, err)
		}
		if warm.anchors.isEmpty() == r.anchor {
			t.Errorf("%s: an anchor is kept: %t", r.name, !r.anchor)
		}
		_, errFresh := issue(next, trusted, r.at, &memory{})
		found, errWarm := issue(next, trusted, r.at, warm)
		if (errFresh == nil) != r.ok || (errWarm == nil) != r.ok {
			t.Errorf("%s: new %v, warm %v, want %t", r.name, errFresh, errWarm, r.ok)
		}
		if _, ok := warm.below([]byte{0, 0}, next, r.at); ok != (r.ok && r.anchor) {
			t.Errorf("%s: proven below the anchor: %t", r.name, ok)
		}
		if r.ok && (len(found.chains) != 1 || len(found.chains[0]) != 3 || !found.chains[0][2].Equal(r.house.authority.Root)) {
			t.Errorf("%s: the chain ends elsewhere", r.name)
		}
	}
}

// A proven signer of timestamps spares the next timestamp its chain, and no
// other check.
func TestRememberedTimestamp(t *testing.T) {
	m, v := known(t, "blob")
	tokens, err := m.entity.Timestamps()
	if err != nil {
		t.Fatal(err)
	}
	content, err := m.entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	token, signature := tokens[0], content.Signature()
	s := v.seen.stamping[0].(*stamper)
	if _, ok := s.again(token, signature); ok {
		t.Error("a timestamp is proven again before it was proven")
	}
	first, err := s.Verify(token, signature)
	if err != nil {
		t.Fatal(err)
	}
	again, ok := s.again(token, signature)
	if !ok || *again != *first {
		t.Errorf("proven again: %t, %v and %v", ok, first, again)
	}
	if _, ok := s.again(token, append([]byte{1}, signature...)); ok {
		t.Error("a timestamp of another signature is taken from memory")
	}
	for i := range token {
		changed := bytes.Clone(token)
		changed[i] ^= 1
		_, ok := s.again(changed, signature)
		if _, err := s.SigstoreTimestampingAuthority.Verify(changed, signature); ok && err != nil {
			t.Fatalf("a timestamp with byte %d changed is taken from memory, and is %v", i, err)
		}
	}
	for key := range s.proven.kept {
		s.proven.kept[key] = span{first.Time.Add(time.Second), first.Time.Add(time.Hour)}
		if _, ok := s.again(token, signature); ok {
			t.Error("a timestamp before what was proven is taken from memory")
		}
		s.proven.kept[key] = span{first.Time.Add(-time.Hour), first.Time.Add(-time.Second)}
		if _, ok := s.again(token, signature); ok {
			t.Error("a timestamp after what was proven is taken from memory")
		}
	}
}

// A checkpoint is known by its bytes, to the log that signed it.
func TestRememberedCheckpoint(t *testing.T) {
	for name, v1 := range map[string]bool{"blob": false, "blob-rekor-v1": true} {
		m, v := known(t, name)
		envelope := m.entity.GetVerificationMaterial().GetTlogEntries()[0].GetInclusionProof().GetCheckpoint().GetEnvelope()
		yes := 0
		for range 2 { // the second time from memory
			for _, w := range v.seen.logs {
				if _, ok := w.checkpoint(envelope, v1); ok {
					yes++
				}
				if _, ok := w.checkpoint(envelope, !v1); ok {
					t.Errorf("%s: a checkpoint is taken in the form of another version", name)
				}
				for i := 0; i < strings.Index(envelope, "\n\n"); i++ {
					b := []byte(envelope)
					b[i] ^= 1
					if _, ok := w.checkpoint(string(b), v1); ok {
						t.Errorf("%s: a checkpoint with byte %d changed is taken", name, i)
					}
				}
			}
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(v.seen.logs)), func(w *logKey) bool { return !w.signed.isEmpty() }) {
			t.Errorf("%s: no checkpoint is remembered", name)
		}
		if len(v.seen.logs) < 2 || yes != 2 {
			t.Errorf("%s: %d answers of %d logs asked twice", name, yes, len(v.seen.logs))
		}
		for _, w := range newMemory(v.material).logs {
			w.name = nil // only logs of version 1 need none
			if _, ok := w.checkpoint(envelope, v1); ok && !v1 {
				t.Errorf("%s: a log without a name signed a checkpoint", name)
			}
		}
	}
}

// A promise holds within the window of the log's key and the certificate's
// life, as the full check says.
func TestPromiseWindow(t *testing.T) {
	m, v := known(t, "blob-rekor-v1")
	entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
	at := time.Unix(entry.GetIntegratedTime(), 0)
	for _, w := range v.seen.logs {
		log := *w.log
		for what, change := range map[string]func(){
			"starts after":  func() { w.log.ValidityPeriodStart = at.Add(time.Second) },
			"ended before":  func() { w.log.ValidityPeriodEnd = at.Add(-time.Second) },
			"has no window": func() { w.log.ValidityPeriodStart = time.Time{} },
		} {
			change()
			if w.promises(entry, at) {
				t.Errorf("the key's window %s the promise, which is taken", what)
			}
			*w.log = log
		}
	}
	if _, ok := asExpected(m, 1, v.seen); !ok {
		t.Error("the twin does not hold")
	}
	m.leaf.NotAfter = at.Add(-time.Second)
	if _, ok := asExpected(m, 1, v.seen); ok {
		t.Error("a promise after the certificate's life is taken")
	}
}

// Memory is bounded by number and by bytes.
func TestMemoIsBounded(t *testing.T) {
	var m memo[int]
	for i := range 3 * remembered {
		m.keep(big.NewInt(int64(i)).Bytes(), i)
		if len(m.kept) > remembered {
			t.Fatalf("%d are kept", len(m.kept))
		}
	}
	large := make([]byte, rememberedBytes/4)
	for i := range 20 {
		large[0] = byte(i)
		m.keep(large, i)
		if m.bytes > rememberedBytes {
			t.Fatalf("%d bytes are kept", m.bytes)
		}
		if got, ok := m.find(large); !ok || got != i {
			t.Fatal("the last one is forgotten")
		}
	}
	var full memo[int]
	for i := range 4 {
		large[0] = byte(i)
		full.keep(large, i)
	}
	if len(full.kept) != 4 || full.bytes != rememberedBytes {
		t.Errorf("%d of 4 are kept, %d bytes", len(full.kept), full.bytes)
	}
}

// A certificate is kept once a signature was proven with it, under its own
// bytes, and whatever is read of it again is the same.
func TestRememberedCertificate(t *testing.T) {
	for _, name := range []string{"blob", "attestation-rekor-v1"} {
		m, v := known(t, name)
		bad := m
		bad.unread, bad.entries = false, nil // nothing is logged
		if _, err := prove(bad, v.material, v.rules, v.seen); err == nil || !v.seen.leaves.isEmpty() {
			t.Errorf("%s: kept of a bundle that was refused: %v", name, err)
		}
		fresh, err := v.keyless(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := parse(m.raw, v.seen)
		if err != nil || again.named == nil || again.leaf != m.leaf {
			t.Fatalf("%s: the certificate is not known: %v", name, err)
		}
		warm, err := v.keyless(again)
		if err != nil || warm.identity != fresh.identity || warm.claims != fresh.claims || warm.leaf != fresh.leaf {
			t.Errorf("%s: %+v, and again %+v, %v", name, fresh, warm, err)
		}
		raw := certificates(again.entity.GetVerificationMaterial())[0]
		raw[len(raw)-1] ^= 1
		if err := again.readCertificate(v.seen); err != nil || again.leaf == m.leaf {
			t.Errorf("%s: another certificate is taken for the one that is known: %v", name, err)
		}
	}
}
