package cluster_test

import (
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/test/lab/cluster/node"
)

// shows compares a transcript of cmd/waybill/deploy/README.md, the block below a
// comment that names it, with the pods of a shard: how each ended, and what it
// printed. An ellipsis stands for what differs from run to run, and a line with
// nothing else for any lines.
func (k *kube) shows(transcript, job, shard string, n []*node.Node) {
	k.t.Helper()
	_, text, found := strings.Cut(deployed(k.t, "README.md"), "<!-- transcript: checked by test/cluster TestPromoteJob, "+transcript+" -->\n```text\n")
	text, _, closed := strings.Cut(text, "```")
	var b strings.Builder
	for _, p := range k.pods(job) {
		if index(p) != shard {
			continue
		}
		b.WriteString(line(p) + "\n")
		for _, at := range n {
			if at.Name == p.Spec.NodeName {
				b.WriteString(at.Log(p.UID))
			}
		}
	}
	pattern := regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(regexp.QuoteMeta(text), `(?:.*\n)*?`)
	pattern = `\A` + strings.ReplaceAll(pattern, "…", ".*") + `\z`
	if !found || !closed || !regexp.MustCompile(pattern).MatchString(b.String()) {
		k.t.Errorf("README.md shows\n%s\nbut the pods of shard %s were\n%s", text, shard, b.String())
	}
}
