package stories

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestDeployWatchService: the Deployment runs the command of the CronJob, one at a time,
// and only its metrics can be reached.
func TestDeployWatchService(t *testing.T) {
	var run appsv1.Deployment
	var network networkingv1.NetworkPolicy
	into := map[string]any{"apps/v1 Deployment waybill-watch": &run, "networking.k8s.io/v1 NetworkPolicy waybill-watch-metrics": &network}
	text := deployFile(t, "watch-deployment.yaml")
	if err := readObjects(text, into); err != nil {
		t.Fatal(err)
	}
	if readObjects(text+"\nunheardOf: true\n", into) == nil {
		t.Error("an unknown key is read")
	}
	pod := run.Spec.Template
	args := leastPod(t, pod.Spec)
	if !slices.Contains(args, "--metrics-address=:9464") || !slices.Contains(args, "--interval=5m") || pod.Spec.Containers[0].Ports[0].ContainerPort != 9464 {
		t.Errorf("%q, %+v", args, pod.Spec.Containers[0].Ports)
	}
	for i, a := range args {
		args[i] = strings.Replace(a, "=:9464", "=127.0.0.1:0", 1) // any port that is free here
	}
	takesAll(t, args)
	if *run.Spec.Replicas != 1 || run.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("two may write the state: %+v", run.Spec)
	}
	for name, selector := range map[string]map[string]string{"the deployment": run.Spec.Selector.MatchLabels, "the network": network.Spec.PodSelector.MatchLabels} {
		for key, value := range selector {
			if pod.Labels[key] != value {
				t.Errorf("%s selects other pods: %v", name, selector)
			}
		}
	}
	if port := network.Spec.Ingress[0].Ports[0].Port.StrVal; port != pod.Spec.Containers[0].Ports[0].Name || *network.Spec.Ingress[0].Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("%+v", network.Spec.Ingress)
	}
}
