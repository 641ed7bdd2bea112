// Package gate measures what it takes to decide about images over HTTP: the
// decisions that one process of `waybill gate serve` makes in a second, how long
// a caller waits, and what CPU and memory the process takes; with nothing known
// and with everything decided before; next to a registry and far from one; and
// over a million requests.
//
//	err := gate.Seed(ctx, dir, 1000)
//	err = gate.Run(ctx, os.Stdout, gate.Request{Way: gate.Cold, N: 1000, Seed: dir, …})
//
// What a decision cannot cost less than is measured too, of the same bundles
// and in one process: the signature checks alone, package verify alone, and
// sigstore-go in a loop.
//
// The service is a process of its own, and only it is measured. Registry,
// issuer and callers are this process, on the same machine: what the service
// can do in a second is more where they are elsewhere, which CPU per decision
// shows.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/bench/far"
)

// Ways are what is measured.
const (
	Cold    = "cold"        // the service decides about each image once
	Warm    = "warm"        // the service decided about each image before
	Soak    = "soak"        // the service answers requests of all kinds, very many
	Verify  = "verify"      // package verify alone
	Library = "sigstore-go" // in a loop
	Bare    = "bare"        // nothing but the signature checks
)

// Request is one run.
type Request struct {
	Way    string
	Images string // one of [Kinds]
	N      int    // images; with [Warm] and [Soak], requests; with [Proxy], rounds
	// Abreast is how many requests are under way at a time.
	Abreast int
	// Trip is a round trip to the registry and back.
	Trip time.Duration
	// Secure has callers use TLS and HTTP/2, in place of HTTP/1.1.
	Secure bool
	Bin    string // directory of waybill
	// Registry is the program of a registry, and Bytes are those of a layer: for
	// [Proxy].
	Registry string
	Bytes    int
	Seed     string // what [Seed] made
	Dir      string // where scenes are made
}

// Facts that a run counts besides what a sample has. Times are in
// microseconds, memory is in KiB.
const (
	FactMedian      = "p50"        // as a caller waits
	FactSlow        = "p99"        // as all but one in a hundred wait
	FactInside      = "inside p50" // as the service says in its log
	FactInsideSlow  = "inside p99"
	FactHits        = "hits in 10000" // decisions that were made before
	FactAskedFor    = "registry"      // requests to the registry
	factResident    = "resident after %d"
	factHeap        = "heap after %d"
	factGoroutines  = "goroutines after %d"
	factDescriptors = "descriptors after %d"
	known           = 200 // images that are asked about again and again
)

// Run measures once and says on w what that took.
func Run(ctx context.Context, w io.Writer, req Request) (err error) {
	switch req.Way {
	case Verify, Library, Bare:
		return floor(w, req)
	case Cold, Warm, Soak:
	default:
		return fmt.Errorf("no way to decide is called %q", req.Way)
	}
	dir, err := os.MkdirTemp(req.Dir, "gate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := openScene(ctx, req, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sample, err := s.measure(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", req.Way, err)
	}
	return json.NewEncoder(w).Encode(sample)
}

// measure prepares what is known before, and measures the rest.
func (s *scene) measure(ctx context.Context) (bench.Sample, error) {
	// Connections, the issuer's keys and the authorities are known to a service
	// that runs; the image is none of those that count.
	if err := s.all(ctx, s.bodies[len(s.bodies)-1:], 1, accepted).err; err != nil {
		return bench.Sample{}, err
	}
	switch s.Way {
	case Cold:
		return s.sample(ctx, s.bodies[:s.N])
	case Warm:
		once := s.bodies[:min(known, len(s.bodies))]
		if err := s.all(ctx, once, s.Abreast, accepted).err; err != nil {
			return bench.Sample{}, err
		}
		return s.sample(ctx, repeat(once, s.N))
	}
	return s.soak(ctx)
}

func repeat(once [][]byte, n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = once[i%len(once)]
	}
	return list
}

// sample sends bodies, all of which must be accepted.
func (s *scene) sample(ctx context.Context, bodies [][]byte) (bench.Sample, error) {
	s.registry.Count()
	before, err := s.service.look(ctx)
	if err != nil {
		return bench.Sample{}, err
	}
	skip, err := s.service.logged()
	if err != nil {
		return bench.Sample{}, err
	}
	began := time.Now()
	sent := s.all(ctx, bodies, s.Abreast, accepted)
	wall := time.Since(began)
	if sent.err != nil {
		return bench.Sample{}, sent.err
	}
	after, err := s.service.look(ctx)
	if err != nil {
		return bench.Sample{}, err
	}
	inside, err := s.service.took(skip)
	if err != nil {
		return bench.Sample{}, err
	}
	facts, asked := far.Sum(s.registry.Count())
	facts[FactAskedFor] = asked
	facts[FactMedian], facts[FactSlow] = quantile(sent.took, 0.5), quantile(sent.took, 0.99)
	facts[FactInside], facts[FactInsideSlow] = quantile(inside, 0.5), quantile(inside, 0.99)
	facts[FactHits] = int(10_000 * (after.hits - before.hits) / max(1, after.decisions-before.decisions))
	return bench.Sample{Wall: wall, CPU: after.cpu - before.cpu, Peak: after.peak, Requests: asked, Facts: facts}, nil
}

// body is a question about an image.
func body(registry string, at image) ([]byte, error) {
	return json.Marshal(api.Request{Schema: api.SchemaRequest, Decisions: []api.Question{
		{Verb: api.Verify, Image: registry + "/" + at.Repository + "@" + at.Digest, Version: "v1.0.0"},
	}})
}
