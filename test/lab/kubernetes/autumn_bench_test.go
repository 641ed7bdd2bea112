package kubernetes_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

// sizeOfFile is the size of each program and archive that is measured, 0.4 GB in
// all. A real release is fifty times as large, and what is not hashing costs the
// same for it.
const sizeOfFile = 4 << 20

// BenchmarkAutumn verifies a whole release in the autumn form, beside the work
// that no verifier can do without: one pass of both hashes over every byte, and
// the signatures with those of their certificates and log entries.
func BenchmarkAutumn(b *testing.B) {
	w := theWorld(b)
	r := kubernetes.Make(w.release.Version)
	for _, name := range r.Names() {
		if c := k8slayout.KindOf(name).Class; c == plan.Binary || c == plan.Archive {
			r.Files[name] = append(bytes.Clone(r.Files[name]), make([]byte, sizeOfFile)...)
		}
	}
	r.Document()
	if err := r.Sign(b.Context(), w.signer); err != nil {
		b.Fatal(err)
	}
	if err := r.Autumn(b.Context(), w.signer); err != nil {
		b.Fatal(err)
	}
	images := push(b, r)
	ask := func() *verdict.Verdict {
		return w.ask(b, func(q *question) { q.release, q.images = r, images })
	}
	if v := ask(); v.Outcome() != verdict.Accepted { // and the log's answers are kept
		b.Fatal(v.Findings)
	}
	b.Run("whole", func(b *testing.B) {
		measured(b, func() error { return ask().Err() })
	})
	b.Run("bare", func(b *testing.B) {
		checks := checksOf(r)
		measured(b, func() error { return bare(r, checks) })
		b.ReportMetric(float64(checks), "checks")
	})
}

// The signatures that each form needs: of the artifact, of the certificate, of
// its log's promise, of the transparency log's promise and, in bundles, of its
// checkpoint. All keys of a lab are on P-256.
const ofLegacy, ofBundle = 4, 5

// checksOf counts the signatures of a release that cannot be left unchecked; of
// a statement that refers to several manifests, those of one.
func checksOf(r *kubernetes.Release) int {
	seen := map[string]bool{}
	n := ofBundle // provenance.json
	for _, name := range r.Names() {
		if k8slayout.KindOf(name).Signed {
			n += ofLegacy
		}
	}
	for _, i := range r.Images {
		for _, m := range append(platformsOf(i), i.Index) {
			for _, list := range m.Signatures {
				n += ofLegacy * len(list)
			}
			for _, list := range m.Referring {
				for _, one := range list {
					if !seen[string(one.Bundle)] {
						seen[string(one.Bundle)], n = true, n+ofBundle
					}
				}
			}
		}
	}
	return n
}

// bare does the work of the limit, as many parts at a time as there are
// processors.
func bare(r *kubernetes.Release, checks int) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte("a message"))
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, body := range r.Files {
		group.Go(func() error {
			sha256.Sum256(body)
			sha512.Sum512(body)
			return nil
		})
	}
	for range checks {
		group.Go(func() error {
			if !ecdsa.VerifyASN1(&key.PublicKey, sum[:], sig) {
				return errors.New("a signature of our own does not hold")
			}
			return nil
		})
	}
	return group.Wait()
}

// measured reports the processor time beside the time that passed.
func measured(b *testing.B, work func() error) {
	b.Helper()
	before := used(b)
	for b.Loop() {
		if err := work(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((used(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
