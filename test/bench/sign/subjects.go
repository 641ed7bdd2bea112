package sign

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/bench"
)

// Works on one statement of many subjects, whose digests are known; each is
// measured in a process of its own.
const (
	State     = "state" // write it and sign it
	StateBare = "bare"  // nothing but hashing and signing what was written
	ProveOne  = "one"   // read and verify it, and find one subject
	ProveAll  = "all"   // the same, and find every subject
	ProveNone = "hash"  // nothing but reading and hashing its bundle
	largeName = "large" // of the statement's bundle
	toolName  = "tool-%06d"
)

// Subjects works on a statement of n subjects and says on w what that took.
func Subjects(w io.Writer, dir, work string, n int) error {
	subjects := make([]intoto.Subject, n)
	for i := range subjects {
		subjects[i] = subject(i)
	}
	switch work {
	case State, StateBare:
		return state(w, work, subjects)
	case ProveOne:
		subjects = subjects[n/2 : n/2+1]
	case ProveAll, ProveNone:
	default:
		return fmt.Errorf("no work is called %q", work)
	}
	root, err := os.ReadFile(filepath.Join(dir, rootName))
	if err != nil {
		return err
	}
	r, err := trust.Parse(root)
	if err != nil {
		return err
	}
	v, err := verify.New(r)
	if err != nil {
		return err
	}
	return bench.Measure(w, func() error {
		raw, err := os.ReadFile(filepath.Join(dir, largeName+bundleExt))
		if err != nil || work == ProveNone {
			sha256.Sum256(raw)
			return err
		}
		e, err := v.Attestation(raw)
		if err != nil {
			return err
		}
		for _, s := range subjects {
			if !e.Covers(s.Name, s.Digests) {
				return fmt.Errorf("%q is not what the statement names", s.Name)
			}
		}
		return nil
	})
}

func subject(i int) intoto.Subject {
	name := fmt.Sprintf("bin/linux/amd64/"+toolName, i)
	return intoto.Subject{Name: name, Digests: digest.Set{SHA256: digest.Of(digest.SHA256, []byte(name))}}
}

// state writes a statement and signs it, or only signs one.
func state(w io.Writer, work string, subjects []intoto.Subject) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	var written intoto.Statement
	if work == StateBare {
		if written, err = intoto.New(predicate, subjects, struct{}{}); err != nil {
			return err
		}
	}
	return bench.Measure(w, func() error {
		if work == State {
			if written, err = intoto.New(predicate, subjects, struct{}{}); err != nil {
				return err
			}
		}
		h := sha256.New()
		if _, err := io.Copy(h, written.PAE()); err != nil {
			return err
		}
		_, err := ecdsa.SignASN1(rand.Reader, key, h.Sum(nil))
		return err
	})
}

// MintLarge has a lab's services sign a statement of n subjects, by the
// product, and leaves the bundle and the trust root in a directory.
func MintLarge(ctx context.Context, dir string, n int) (err error) {
	at, err := openWorld(ctx, dir, 0, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	subjects := make([]intoto.Subject, n)
	for i := range subjects {
		subjects[i] = subject(i)
	}
	s, err := intoto.New(predicate, subjects, struct{}{})
	if err != nil {
		return err
	}
	j, err := journal.Open(filepath.Join(dir, "signatures.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	signer, err := signer(dir, j, transport.New(transport.Config{}))
	if err != nil {
		return err
	}
	bundle, _, err := signer.Statement(ctx, s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, largeName+bundleExt), bundle, 0o600)
}
