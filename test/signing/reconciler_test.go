package signing

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// reconciler signs transitions in these tests, and imposter whoever a test has
// do it in his place.
const (
	reconciler = "reconciler@lab.invalid"
	imposter   = "imposter@lab.invalid"
)

// reconciledBy is the policy in which somebody is the reconciler, and nothing
// else.
func (w *world) reconciledBy(t *testing.T, who string) policy.Policy {
	t.Helper()
	text := strings.ReplaceAll(policyText(w.Issuer), who, "nobody@lab.invalid")
	text = strings.Replace(text, "roles:\n", fmt.Sprintf("roles:\n  reconciler: [{issuer: %q, subject: %s, type: email}]\n", w.Issuer, who), 1)
	p, err := policy.Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// statements is an empty place for bundles.
func statements(t *testing.T) featurestore.Place {
	t.Helper()
	dir := t.TempDir()
	at, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	return featurestore.Place{Place: at, Writer: w}
}

// switching signs transitions as somebody, by a policy that lets him.
func (w *world) switching(t *testing.T, who string, at featurestore.Place) (config.Signer, *meddler) {
	t.Helper()
	p, token, m := w.reconciledBy(t, who), w.lasting(t, who), w.honest()
	by := w.signer(t, m, func(c *sign.Config) {
		c.Role, c.Policy = policy.Reconciler, p
		c.Token = func(context.Context) (string, error) { return token, nil }
	})
	return config.Signer{By: by, Verifier: w.verifier, Policy: p, Statements: at}, m
}

// transition is the statement that a feature began to turn on.
func transition(t *testing.T, reason string) intoto.Statement {
	t.Helper()
	st, err := featuretransition.New(featuretransition.Predicate{
		Namespace: "waybill", Name: "StatusPage", Number: 1, From: featuretransition.Off, To: featuretransition.TurningOn,
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Preparing: featuretransition.Scope{Everything: true},
		Reconciler: "reconciler-0", Version: "v0.2.0", Reason: reason,
		Tasks: []featuretransition.Task{{Kind: featuretransition.WaitForUses, Name: featuretransition.WaitForUses}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

const (
	transitionName = "waybill/StatusPage/1"
	transitionFile = transitionName + ".sigstore.json"
)

// read is a bundle as it is kept.
func read(t *testing.T, at featurestore.Place) []byte {
	t.Helper()
	raw, err := store.Read(t.Context(), at, transitionFile, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// mends is a writer that a test has fail, or be overtaken.
type mends struct {
	store.Writer
	put func(write func() error) error
}

func (m mends) Put(ctx context.Context, name string, size int64, body io.Reader, o store.PutOptions) error {
	return m.put(func() error { return m.Writer.Put(ctx, name, size, body, o) })
}

// TestReconcilerSignsOnce: a transition is signed once, however often it is asked
// for, and whoever was killed between the signature and the answer.
func TestReconcilerSignsOnce(t *testing.T) {
	w, at, st := newWorld(t), statements(t), transition(t, "On is wanted")
	s, m := w.switching(t, reconciler, at)
	sign := func() {
		t.Helper()
		where, err := s.Sign(t.Context(), transitionName, st)
		if err != nil || where != transitionFile {
			t.Fatalf("%q, %v", where, err)
		}
	}
	killed := errors.New("killed")
	s.Statements.Writer = mends{at.Writer, func(func() error) error { return killed }}
	if _, err := s.Sign(t.Context(), transitionName, st); !errors.Is(err, killed) {
		t.Fatalf("killed before it was written: %v", err)
	}
	if _, err := store.Read(t.Context(), at, transitionFile, 1<<20); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("something is there: %v", err)
	}
	s.Statements.Writer = mends{at.Writer, func(write func() error) error { return errors.Join(write(), killed) }}
	if _, err := s.Sign(t.Context(), transitionName, st); !errors.Is(err, killed) {
		t.Fatalf("killed after it was written: %v", err)
	}
	kept, logged := read(t, at), m.to("rekor")
	s.Statements.Writer = at.Writer
	sign()
	again, other := w.switching(t, reconciler, at)
	s = again
	sign()
	if m.to("rekor") != logged || other.to("rekor") != 0 || !bytes.Equal(read(t, at), kept) {
		t.Errorf("it was signed again: %d requests and %d to the log, were %d", m.to("rekor"), other.to("rekor"), logged)
	}
}

// TestReconcilersSignAtOnce: of two that sign the same, one is kept, and both
// answer where.
func TestReconcilersSignAtOnce(t *testing.T) {
	w, at, st := newWorld(t), statements(t), transition(t, "On is wanted")
	first, _ := w.switching(t, reconciler, at)
	second, _ := w.switching(t, reconciler, at)
	var kept []byte
	second.Statements.Writer = mends{at.Writer, func(write func() error) error {
		if _, err := first.Sign(t.Context(), transitionName, st); err != nil {
			t.Error(err)
		}
		kept = read(t, at)
		return write()
	}}
	where, err := second.Sign(t.Context(), transitionName, st)
	if err != nil || where != transitionFile || !bytes.Equal(read(t, at), kept) {
		t.Errorf("%q, %v", where, err)
	}
}

// TestReconcilerRefusesWhatIsThere: whatever lies where a statement belongs is
// held against the one that is wanted, and never written over.
func TestReconcilerRefusesWhatIsThere(t *testing.T) {
	w, st := newWorld(t), transition(t, "On is wanted")
	bundle := func(who, reason string) []byte {
		at := statements(t)
		s, _ := w.switching(t, who, at)
		if _, err := s.Sign(t.Context(), transitionName, transition(t, reason)); err != nil {
			t.Fatal(err)
		}
		return read(t, at)
	}
	for _, row := range []struct {
		name  string
		there []byte
		want  verdict.Code // "" takes it
	}{
		{"what belongs there", bundle(reconciler, "On is wanted"), ""},
		{"another statement", bundle(reconciler, "another scope is wanted"), verdict.FileConflict},
		{"by somebody else", bundle(imposter, "On is wanted"), verdict.Identity},
		{"by another role", bundle("release@lab.invalid", "On is wanted"), verdict.IdentityRole},
		{"no bundle", []byte("{}\n"), verdict.BundleVersion},
		{"nothing", nil, verdict.BundleParse},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := statements(t)
			if err := at.Put(t.Context(), transitionFile, int64(len(row.there)), bytes.NewReader(row.there), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			s, m := w.switching(t, reconciler, at)
			where, err := s.Sign(t.Context(), transitionName, st)
			if row.want == "" {
				if err != nil || where != transitionFile {
					t.Errorf("%q, %v", where, err)
				}
			} else {
				refused(t, err, row.want)
			}
			if m.all != 0 || !bytes.Equal(read(t, at), row.there) {
				t.Errorf("%d requests were made, or it was written over", m.all)
			}
		})
	}
}

// TestReconcilerReadsBack: what was written and cannot be read is not signed for.
func TestReconcilerReadsBack(t *testing.T) {
	w, at := newWorld(t), statements(t)
	s, _ := w.switching(t, reconciler, at)
	s.Statements.Writer = mends{at.Writer, func(func() error) error { return nil }}
	where, err := s.Sign(t.Context(), transitionName, transition(t, "On is wanted"))
	if where != "" || verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("%q, %v", where, err)
	}
}

// TestReconcilerIsNamed: nobody signs whom the policy does not name in the role.
func TestReconcilerIsNamed(t *testing.T) {
	w, at := newWorld(t), statements(t)
	s, _ := w.switching(t, reconciler, at)
	token := w.lasting(t, imposter)
	s.By = w.signer(t, w.honest(), func(c *sign.Config) {
		c.Role, c.Policy = policy.Reconciler, s.Policy
		c.Token = func(context.Context) (string, error) { return token, nil }
	})
	refused(t, s.Ready(t.Context()), verdict.SignedAsElse)
	_, err := s.Sign(t.Context(), transitionName, transition(t, "On is wanted"))
	refused(t, err, verdict.SignedAsElse)
	if left, err := at.List(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("something was written: %v, %v", left, err)
	}
}

// TestReconcilerIsReady: who will sign is told by the token where that tells;
// where it does not, or nobody hands one out just now, by a certificate.
func TestReconcilerIsReady(t *testing.T) {
	w := newWorld(t)
	away := &verdict.UnavailableError{Place: "token service", Op: "fetching", Err: errors.New("no answer")}
	silent := "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, w.now().Add(time.Hour).Unix())) + ".c2ln"
	for _, row := range []struct {
		name   string
		first  func() (string, error) // what is handed out first; then the reconciler's
		fulcio int
		want   verdict.Code
	}{
		{"the reconciler's token", nil, 0, ""},
		{"a token of somebody else", func() (string, error) { return w.lasting(t, imposter), nil }, 0, verdict.SignedAsElse},
		{"no token just now", func() (string, error) { return "", away }, 1, ""},
		{"a token that does not tell", func() (string, error) { return silent, nil }, 1, ""},
		{"no token", func() (string, error) { return "", verdict.Refuse(verdict.TokenRefused, "identity token", "none") }, 0, verdict.TokenRefused},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, _ := w.switching(t, reconciler, statements(t))
			m, good, asked := w.honest(), w.lasting(t, reconciler), 0
			s.By = w.signer(t, m, func(c *sign.Config) {
				c.Role, c.Policy = policy.Reconciler, s.Policy
				c.Token = func(context.Context) (string, error) {
					if asked++; asked == 1 && row.first != nil {
						return row.first()
					}
					return good, nil
				}
			})
			refused(t, s.Ready(t.Context()), row.want)
			if n := m.to("fulcio"); n != row.fulcio || m.all != n {
				t.Errorf("%d requests, %d of them to the certificate authority", m.all, n)
			}
		})
	}
}
