package cluster_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/waybill-release/waybill/test/lab/cluster/node"
)

// TestOtherJobs: other work on a plan in shards, as the Job of promote-job.yaml.
func TestOtherJobs(t *testing.T) {
	k := open(t)
	n := []*node.Node{node.Start(t, k.Cluster, node.Options{Name: "one", CPU: "4", Memory: "64Gi", Images: map[string]string{repository: bin + "/waybill", machine: ""}})}
	f := openFleet(t, k.Cluster, 16, nil)
	k = k.with(t, f)
	t.Run("status 4 is final", func(t *testing.T) { k.as(t).bug(n) })
	if out, code := f.run("promote", "apply", "plan.json", "--profile", "profile.yaml", "--confirm"); code != 0 {
		t.Fatal(out)
	}
	t.Run("SBOMs", func(t *testing.T) { k.as(t).sboms(n) })
	t.Run("mirrors", func(t *testing.T) { k.as(t).mirrors(n) })
}

func (k *kube) as(t *testing.T) *kube { return &kube{Cluster: k.Cluster, t: t, f: k.f} }

// command is a change of the Job: its pods run waybill with these arguments, and
// with a directory of the node at /shared.
func command(dir string, args ...string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		s := &j.Spec.Template.Spec
		s.Containers[0].Args = args
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "shared", MountPath: "/shared"})
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}})
	}
}

// bug: a pod that ends with 4 is not tried again, and the others finish.
func (k *kube) bug(n []*node.Node) {
	k.start(promotion{name: "bug", shards: 2, change: func(j *batchv1.Job) {
		c := &j.Spec.Template.Spec.Containers[0]
		c.Image, c.Command, c.Args = machine, []string{"sh", "-c", `test "$JOB_COMPLETION_INDEX" != 1 || exit 4`}, nil
	}})
	if end := k.ends("bug", n...); end.Type != batchv1.JobFailed || end.Reason != batchv1.JobReasonFailedIndexes {
		k.t.Errorf("%+v", end)
	}
	if j := k.job("bug"); orNone(j.Status.FailedIndexes) != "1" || j.Status.CompletedIndexes != "0" || len(k.pods("bug")) != 2 {
		k.tell("bug")
		k.t.Error("status 4 was tried again, or kept the other index from its end")
	}
}

// sboms: the pods write SBOMs to a bucket, and the merge accounts for each image.
func (k *kube) sboms(n []*node.Node) {
	to := k.f.bucket("sboms")
	account := func(want int, code string) {
		k.t.Helper()
		if out, got := k.f.run("sbom", "images", "plan.json", "--to", to, "--merge", "--verbose"); got != want || !strings.Contains(out, code) {
			k.t.Errorf("the merge ends with %d:\n%s", got, out)
		}
	}
	account(1, "MISSING")
	k.start(promotion{name: "sboms", shards: 4, change: command(k.t.TempDir(), "sbom", "images", "/plan/plan.json", "--to", to, "--shard=$(JOB_COMPLETION_INDEX)/4")})
	if end := k.ends("sboms", n...); end.Type != batchv1.JobComplete {
		k.tell("sboms", n...)
	}
	account(0, "16 of 16")
}

// mirrors: the pods keep their answers in one directory, and a run without them
// judges the answers of all. A tag that is not there fails its index alone.
func (k *kube) mirrors(n []*node.Node) {
	for _, lost := range []string{"", "v0"} {
		if lost != "" {
			k.f.untag(lost)
		}
		dir := k.t.TempDir()
		r := promotion{name: "mirrors" + lost, shards: 4, change: command(dir, "verify", "mirrors", "/plan/plan.json", "--profile=/profile/profile.yaml", "--record=/shared", "--shard=$(JOB_COMPLETION_INDEX)/4")}
		k.start(r)
		end, failed, exit, says := k.ends(r.name, n...), "", 0, "OK"
		if lost != "" {
			failed, exit, says = k.f.shardOf(lost, 4), 1, "MISSING"
		}
		if (end.Type == batchv1.JobComplete) != (lost == "") || orNone(k.job(r.name).Status.FailedIndexes) != failed {
			k.tell(r.name, n...)
		}
		merge := func(want int, says string) {
			k.t.Helper()
			if out, code := k.f.run("verify", "mirrors", "plan.json", "--profile", "profile.yaml", "--record", dir, "--requests", "0"); code != want || !strings.Contains(out, says) {
				k.t.Errorf("without %q: the merge ends with %d:\n%s", lost, code, out)
			}
		}
		merge(exit, says)
		if lost != "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*#2-of-4*"))
		if err != nil || len(files) == 0 {
			k.t.Fatal("shard 2 recorded nothing", err)
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				k.t.Fatal(err)
			}
		}
		merge(3, "UNAVAILABLE")
	}
}

// untag removes a tag from the registry of the destinations.
func (f *fleet) untag(tag string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodDelete, "http://"+f.to+"/v2/prod/demo/manifests/"+tag, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil || !slices.Contains([]int{http.StatusAccepted, http.StatusOK, http.StatusNoContent}, answer.StatusCode) {
		f.t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
}
