#!/bin/sh
# synthetic.sh OUT PLATFORM VERSION writes what a build of Kubernetes would
# compile for a platform: lines that say that they are no programs.
set -eu
out=$1 platform=$2 version=$3
dir=$out/bin/$platform
mkdir -p "$dir"

ctl="kubectl kubectl-convert"
host="$ctl kube-log-runner kube-proxy kubeadm kubelet"
wrapped="kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl"
daemons="$host apiextensions-apiserver kube-aggregator kube-apiserver kube-controller-manager kube-scheduler mounter"

line() { echo "SYNTHETIC bin/$platform/$1 of Kubernetes $version: no program, made for tests" >"$dir/$1"; }

case $platform in
linux/amd64 | linux/arm64 | linux/ppc64le | linux/s390x)
	for name in $daemons; do line "$name"; done
	for name in $wrapped; do
		line "$name.tar"
		printf %s "$version" >"$dir/$name.docker_tag"
	done
	;;
windows/amd64) for name in $host; do line "$name.exe"; done ;;
windows/*) for name in $ctl; do line "$name.exe"; done ;;
*) for name in $ctl; do line "$name"; done ;;
esac
