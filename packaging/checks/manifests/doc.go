// Package manifests tests the Helm chart in packaging/chart and the Kustomize base that is made from it, by the real
// helm and kustomize: make lint-chart builds both from this module and names them in HELM and KUSTOMIZE.
//
// What is rendered is decoded strictly into Kubernetes' own types, so that a misspelled field is an error.
package manifests
