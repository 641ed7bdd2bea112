// Package watched decides which entries of a transparency log are by identities of a
// policy, and whether a log contradicted itself. An entry is ours if its certificate names
// an identity of any role, at any time, and an authority of the trust root issued it, or if
// its key is in the policy. Logs accept certificates that anybody made: those are not ours.
//
// Other projects should not import this package: it changes without notice.
package watched

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The codes that pkg/value/verdict has as text.
const (
	Unexplained verdict.Code = "LOG_UNEXPLAINED"
	Fork        verdict.Code = "LOG_FORK"
	Rollback    verdict.Code = "LOG_ROLLBACK"
	Stalled     verdict.Code = "LOG_STALLED"
)

// Entry is an entry of ours: who signed it, and the digest of what was signed.
type Entry struct {
	Signer  string `json:"signer"`
	Content string `json:"content"`
}

// Identities are those of all roles of a policy.
type Identities struct {
	matchers []identity.Matcher
	marks    [][2][]byte // what is in the certificates of each: the issuer, and how the name begins
	verifier *verify.Verifier
}

// plain is the part of a name that is the same in a certificate and in an identity: of an
// address without the scheme, and without what may be escaped.
var plain = pattern.Lazy(`\A(?:[a-z]+://)?([A-Za-z0-9._~@:/+-]*)`)

// By returns the identities of a policy whose certificates the verifier's root issued.
func By(p policy.Policy, v *verify.Verifier) Identities {
	i := Identities{verifier: v}
	for _, role := range policy.Roles() {
		i.matchers = append(i.matchers, role.Matchers(p)...)
	}
	for _, m := range i.matchers {
		if m.Issuer() != "" { // else it is a key
			i.marks = append(i.marks, [2][]byte{[]byte(m.Issuer()), []byte(plain().FindStringSubmatch(m.Prefix())[1])})
		}
	}
	return i
}

// EntryV1 reads an entry of a Rekor v1 log, of any kind and version, and reports whether
// it is ours: whether any text in it is a certificate or key of ours, in PEM and base64.
func (i Identities) EntryV1(body []byte) (e Entry, ours bool, err error) {
	type hash struct{ Value string }
	var read struct {
		Spec struct {
			Data    struct{ Hash hash }        // hashedrekord
			Payload hash                       `json:"payloadHash"` // dsse
			Content struct{ PayloadHash hash } // intoto
		}
	}
	leaf := tlog.RecordHash(body)
	if err := json.Unmarshal(body, &read); err == nil { // other kinds have other forms
		e.Content = cmp.Or(read.Spec.Data.Hash.Value, read.Spec.Payload.Value, read.Spec.Content.PayloadHash.Value)
	}
	e.Content = cmp.Or(e.Content, hex.EncodeToString(leaf[:]))
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return e, ours, nil
		} else if err != nil {
			return e, false, verdict.Wrap(verdict.LogEntryParse, "log entry", err)
		}
		text, _ := token.(string)
		rest, _ := base64.StdEncoding.DecodeString(text)
		for block, rest := pem.Decode(rest); block != nil && !ours; block, rest = pem.Decode(rest) {
			var who identity.Identity
			who, ours = i.Signer(block.Bytes, block.Bytes)
			e.Signer = who.String()
		}
	}
}

// signed is the content of hashedrekord or dsse of version 0.0.2, and signer who signed it.
type signed struct {
	Data, PayloadHash struct{ Digest []byte }
	Signature         signer
	Signatures        []signer
}

type signer struct {
	Verifier struct{ X509Certificate, PublicKey struct{ RawBytes []byte } }
}

// Entry reads an entry, and reports whether it is ours. Any other kind of entry is an error,
// because it may be ours.
func (i Identities) Entry(body []byte) (e Entry, ours bool, err error) {
	var read struct {
		Spec struct {
			Record   *signed `json:"hashedRekordV002"`
			Envelope *signed `json:"dsseV002"`
		}
	}
	err = json.Unmarshal(body, &read)
	s := cmp.Or(read.Spec.Record, read.Spec.Envelope)
	if err != nil || s == nil || len(s.Data.Digest)+len(s.PayloadHash.Digest) == 0 {
		return e, false, verdict.Refuse(verdict.LogEntryParse, "log entry", "neither hashedrekord nor dsse of version 0.0.2: %.200q", body)
	}
	e.Content = hex.EncodeToString(append(s.Data.Digest, s.PayloadHash.Digest...))
	for _, one := range append(s.Signatures, s.Signature) {
		if who, is := i.Signer(one.Verifier.X509Certificate.RawBytes, one.Verifier.PublicKey.RawBytes); is {
			e.Signer = who.String()
			return e, true, nil
		}
	}
	return e, false, nil
}

// Has reports whether verified evidence is by one of the identities.
func (i Identities) Has(e verify.Evidence) bool {
	who := e.Identity()
	if !e.Key().IsZero() {
		who = identity.OfKey(e.Key())
	}
	return slices.ContainsFunc(i.matchers, func(m identity.Matcher) bool { return m.Match(who) })
}

// Signer reports whether a certificate or key is an expected one. A certificate without an
// issuer of the policy and the beginning of its name is not parsed, which is half the work.
func (i Identities) Signer(certificate, key []byte) (who identity.Identity, is bool) {
	who = identity.OfKey(digest.Of(digest.SHA256, key))
	if slices.ContainsFunc(i.marks, func(m [2][]byte) bool {
		return bytes.Contains(certificate, m[1]) && bytes.Contains(certificate, m[0])
	}) {
		who, _ = verify.CertificateIdentity(certificate) // else it is zero, and expected by no matcher
	}
	is = slices.ContainsFunc(i.matchers, func(m identity.Matcher) bool { return m.Match(who) })
	return who, is && (who.Type == identity.Key || i.verifier.Issued(certificate))
}

// Contradiction is the proof that a log contradicted itself: two checkpoints, as the log
// signed them, and when the second was read. Of a fork with trees of different sizes, Root
// is what as many entries of the second tree hash to as the first has, which Path proves.
type Contradiction struct {
	Code   verdict.Code `json:"code"` // LOG_FORK or LOG_ROLLBACK
	Log    string       `json:"log"`  // its identifier in the trust root
	First  string       `json:"first"`
	Second string       `json:"second"`
	Seen   time.Time    `json:"seen"`
	Root   []byte       `json:"root,omitempty"`
	Path   [][]byte     `json:"path,omitempty"`
}

// heads verifies both checkpoints. Their first line names the log, and its tree.
func (c *Contradiction) heads(v *verify.Verifier) (a, b tlog.Tree, err error) {
	log, n, root, err := v.Checkpoint([]byte(c.First))
	other, m, end, no := v.Checkpoint([]byte(c.Second))
	tree, _, _ := strings.Cut(c.First, "\n")
	if err = errors.Join(err, no); err == nil && (log != other || log != c.Log || !strings.HasPrefix(c.Second, tree+"\n")) {
		err = verdict.Refuse(verdict.LogProof, "proof", "the checkpoints are not both of one tree of the log %q", c.Log)
	}
	if err != nil {
		return a, b, err
	}
	return tlog.Tree{N: n, Hash: tlog.Hash(root)}, tlog.Tree{N: m, Hash: tlog.Hash(end)}, nil
}

// Compare fills in c if the checkpoint Second does not extend First, and reports whether it
// is of a larger tree. Prefix returns what as many entries of tree b hash to as a has: the
// hash of a, if that is proven; else another, with its proof.
func (c *Contradiction) Compare(v *verify.Verifier, prefix func(a, b tlog.Tree) (tlog.Hash, tlog.TreeProof, error)) (grown bool, err error) {
	a, b, err := c.heads(v)
	switch {
	case err != nil || a == b || a.N == 0:
		return a != b, err
	case b.N <= a.N:
		c.Code = map[bool]verdict.Code{true: Rollback, false: Fork}[b.N < a.N]
		return false, nil
	}
	root, path, err := prefix(a, b)
	if err != nil || root == a.Hash {
		return err == nil, err
	}
	if err := tlog.CheckTree(path, b.N, b.Hash, a.N, root); err != nil {
		return false, verdict.Wrap(verdict.LogProof, "log", fmt.Errorf("it does not prove that the tree of %d entries extends that of %d: %w", b.N, a.N, err))
	}
	for _, h := range path {
		c.Path = append(c.Path, bytes.Clone(h[:]))
	}
	c.Code, c.Root = Fork, root[:]
	return false, nil
}

// Check refuses what does not prove a contradiction. Signatures prove a fork. Which tree of
// a rollback was published last is only stated: a checkpoint has no time.
func (c *Contradiction) Check(v *verify.Verifier) error {
	a, b, err := c.heads(v)
	if err != nil {
		return err
	}
	path := make(tlog.TreeProof, len(c.Path))
	for i, h := range c.Path {
		copy(path[i][:], h)
	}
	switch fork := c.Code == Fork; {
	case fork && a.N == b.N && a.Hash != b.Hash, c.Code == Rollback && b.N < a.N:
		return nil
	case fork && a.N < b.N && len(c.Root) == tlog.HashSize && tlog.Hash(c.Root) != a.Hash && tlog.CheckTree(path, b.N, b.Hash, a.N, tlog.Hash(c.Root)) == nil:
		return nil
	}
	return verdict.Refuse(verdict.LogProof, "proof", "it does not prove that the log contradicted itself")
}
