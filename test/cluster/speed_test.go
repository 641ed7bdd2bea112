package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/waybill-release/waybill/test/bench/far"
)

var (
	many = flag.Int("images", 640, "how many images TestManyShards promotes")
	fast = flag.Int("fast", 400, "how many images TestJobSpeed promotes")
	trip = flag.Duration("trip", 50*time.Millisecond, "the round trip to both registries in TestJobSpeed")
)

// TestManyShards: 64 shards on nodes that have room for 8 at a time, and an account
// of every image. A plan of 10,000 images is larger than a config map can be, so
// that it comes from a volume.
func TestManyShards(t *testing.T) {
	k := open(t)
	f := openFleet(t, k.Cluster, *many, nil)
	t.Logf("%d images are pushed and signed", *many)
	plan := f.read("plan.json")
	f.write("plan.json", "{}") // not this one
	k = k.with(t, f)
	f.write("plan.json", plan)
	volume := filepath.Join(t.TempDir(), "plan")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "plan.json"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	n := k.nodes(4, "one", "two")
	r := promotion{name: "promote", results: f.bucket("results"), lease: f.bucket("leases"), shards: 64, change: func(j *batchv1.Job) {
		j.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: volume}}
	}}
	began := time.Now()
	k.start(r)
	if end := k.ends(r.name, n...); end.Type != batchv1.JobComplete {
		k.tell(r.name, n...)
		t.Fatalf("%+v", end)
	}
	t.Logf("the Job took %s", time.Since(began).Round(time.Second))
	k.f.complete(r.results)
}

// TestJobSpeed reports how much faster a Job of eight shards is than one process, if
// registries are far away, and what the CPUs of this machine allow. It fails only if
// either does not promote everything.
func TestJobSpeed(t *testing.T) {
	k := open(t)
	n := k.nodes(8, "one")
	measured := func(shards int) time.Duration {
		f := openFleet(t, k.Cluster, *fast, func(f *fleet) {
			f.pushed = func() {
				f.from, f.to = distant(t, filepath.Join(f.Dir(), "state", "registry")), distant(t, t.TempDir())
			}
		})
		k := k.with(t, f)
		r := promotion{name: fmt.Sprintf("promote-in-%d", shards), results: f.bucket("results"), lease: f.bucket("leases"), shards: shards}
		began, pods, registries := time.Now(), n[0].Used(), used(t)
		k.start(r)
		end := k.ends(r.name, n...)
		pods, registries = n[0].Used()-pods, used(t)-registries
		if end.Type != batchv1.JobComplete {
			t.Fatalf("%+v", end)
		}
		f.complete(r.results)
		var last time.Time
		for _, p := range k.pods(r.name) {
			if at := p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time; at.After(last) {
				last = at
			}
		}
		took, all := last.Sub(began), (pods+registries)/time.Duration(runtime.NumCPU())
		t.Logf("%d shards, %d images, %s round trip: %s; CPU of the pods %s (%s an image), of registries and lab %s: at least %s on %d CPUs", shards, *fast, *trip, took.Round(time.Millisecond),
			pods.Round(time.Millisecond), (pods / time.Duration(*fast)).Round(time.Millisecond), registries.Round(time.Millisecond), all.Round(time.Millisecond), runtime.NumCPU())
		return took
	}
	one, eight := measured(1), measured(8)
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%s round trip: one process %s, a Job of 8 shards %s, %.1f times as fast; load %s", *trip, one, eight, one.Seconds()/eight.Seconds(), strings.TrimSpace(string(load)))
}

// used is the CPU time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// distant serves the registry in a directory, a round trip away.
func distant(t *testing.T, dir string) string {
	t.Helper()
	host, err := far.Open(dir, *trip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() }) // requests may be under way
	return host.Name
}
