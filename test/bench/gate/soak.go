package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// turns is how often caller, certificate and policy change.
const turns = 50

// soak sends the service very many requests of all kinds, and looks at its memory and
// its descriptors now and then: most ask about images that were decided about, some
// about images that are not there, in ever new repositories, some make no sense, some
// have no credentials, and some pull through gate proxy. Meanwhile the caller, the
// certificate and the policy change.
func (s *scene) soak(ctx context.Context) (bench.Sample, error) {
	once := s.bodies[:min(known, len(s.bodies))]
	if err := s.all(ctx, once, s.Abreast, accepted).err; err != nil {
		return bench.Sample{}, err
	}
	facts := map[string]int{}
	before, err := s.service.look(ctx)
	if err != nil {
		return bench.Sample{}, err
	}
	began, done := time.Now(), 0
	var last looks
	for turn, until := range marks(s.N) {
		if err := s.turn(ctx, turn); err != nil {
			return bench.Sample{}, err
		}
		out := sent{}
		s.each(until-done, s.Abreast, &out, func(i int) error { return s.any(ctx, once, done+i) })
		if out.err != nil {
			return bench.Sample{}, out.err
		}
		done = until
		if last, err = s.service.look(ctx); err != nil {
			return bench.Sample{}, err
		}
		passed, err := s.proxy.look(ctx)
		if err != nil {
			return bench.Sample{}, err
		}
		for name, n := range map[string]int{
			factResident: int(last.resident >> 10), factHeap: int(last.heap >> 10), factGoroutines: last.goroutines, factDescriptors: last.descriptors,
			"proxy " + factResident: int(passed.resident >> 10), "proxy " + factHeap: int(passed.heap >> 10), "proxy " + factDescriptors: passed.descriptors,
		} {
			facts[fmt.Sprintf(name, until)] = n
		}
	}
	facts[FactHits] = int(10_000 * (last.hits - before.hits) / max(1, last.decisions-before.decisions))
	return bench.Sample{Wall: time.Since(began), CPU: last.cpu - before.cpu, Peak: last.peak, Facts: facts}, nil
}

// turn changes who may ask, the certificate and the policy, tells both services, and
// waits until they have read them.
func (s *scene) turn(ctx context.Context, n int) (err error) {
	name := fmt.Sprintf("%s-%d", asker, n)
	if s.token, err = s.mint(name); err != nil {
		return err
	}
	s.client.CloseIdleConnections()
	if s.client, err = s.writeTLS(); err != nil {
		return err
	}
	policy, err := os.OpenFile(filepath.Join(s.dir, s.policy), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(policy, "# turn %d\n", n)
	if err := errors.Join(err, policy.Close(), os.WriteFile(filepath.Join(s.dir, "callers.yaml"), []byte(s.callers(name)), 0o600)); err != nil {
		return err
	}
	for _, one := range []*service{s.service, s.proxy} {
		before, err := one.look(ctx)
		if err := errors.Join(err, one.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
			return err
		}
		for now := before; now.reloads == before.reloads; {
			if now, err = one.look(ctx); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// marks are when to look: after each turn.
func marks(n int) (list []int) {
	for turn := range turns {
		list = append(list, n*(turn+1)/turns)
	}
	return list
}

// any sends the i-th request, which is of the kind that its number says.
func (s *scene) any(ctx context.Context, once [][]byte, i int) error {
	content, want := once[i%len(once)], http.StatusOK
	kind := i % 20
	switch kind {
	case 0: // an image that is not there
		at := image{Repository: fmt.Sprintf("%s/missing-%d", staging, i), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Append(nil, i)))}
		var err error
		if content, err = body(s.registry.Name, at); err != nil {
			return err
		}
		want = http.StatusForbidden
	case 1:
		content, want = bytes.Replace(content, []byte("verify"), []byte("believe"), 1), http.StatusUnprocessableEntity
	}
	req, err := s.request(ctx, content)
	if err != nil {
		return err
	}
	if kind == 3 || kind == 4 { // a pull by digest through the proxy: without a version, no tag of the source can be right
		want = http.StatusForbidden
		at := s.names[i%len(once)]
		req.Method, req.Body, req.ContentLength, req.GetBody = http.MethodGet, nil, 0, nil
		req.URL.Host, req.URL.Path = s.proxy.callers, "/v2/"+at.Repository+"/manifests/"+at.Digest
		if kind == 4 {
			req.URL.Path, want = fmt.Sprintf("/v2/%s-%d/manifests/%s", at.Repository, i, at.Digest), http.StatusNotFound
		}
		req.Header.Del("Authorization")
		req.SetBasicAuth("caller", s.token)
	}
	if kind == 2 { // somebody else
		req.Header.Set("Authorization", "Bearer "+s.token[:len(s.token)-8]+"AAAAAAAA")
		want = http.StatusUnauthorized
	}
	status, raw, err := s.do(req)
	if err == nil && status != want {
		err = fmt.Errorf("request %d was answered %d, want %d: %.500s", i, status, want, raw)
	}
	return err
}
