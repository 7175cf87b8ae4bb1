package manifests

import (
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// constraints is the part of security.openshift.io/v1 that the chart sets, by OpenShift's names of the fields.
type constraints struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	AllowPrivilegedContainer        bool                `json:"allowPrivilegedContainer"`
	AllowPrivilegeEscalation        *bool               `json:"allowPrivilegeEscalation"`
	DefaultAllowPrivilegeEscalation *bool               `json:"defaultAllowPrivilegeEscalation"`
	AllowHostDirVolumePlugin        bool                `json:"allowHostDirVolumePlugin"`
	AllowHostIPC                    bool                `json:"allowHostIPC"`
	AllowHostNetwork                bool                `json:"allowHostNetwork"`
	AllowHostPID                    bool                `json:"allowHostPID"`
	AllowHostPorts                  bool                `json:"allowHostPorts"`
	ReadOnlyRootFilesystem          bool                `json:"readOnlyRootFilesystem"`
	RequiredDropCapabilities        []corev1.Capability `json:"requiredDropCapabilities"`
	AllowedCapabilities             []corev1.Capability `json:"allowedCapabilities"`
	Volumes                         []string            `json:"volumes"`
	RunAsUser                       strategy            `json:"runAsUser"`
	SELinuxContext                  strategy            `json:"seLinuxContext"`
	SupplementalGroups              strategy            `json:"supplementalGroups"`
	FSGroup                         strategy            `json:"fsGroup"`
	SeccompProfiles                 []string            `json:"seccompProfiles"`
}

type strategy struct {
	Type string `json:"type"`
	UID  *int64 `json:"uid"`
}

// TestOpenShift: the constraints allow exactly the pod's own settings; only the service account may use them,
// in its namespace.
func TestOpenShift(t *testing.T) {
	if n := len(kinds[*constraints](rendered(t))); n != 0 {
		t.Errorf("%d constraints by default", n)
	}
	for _, more := range []string{"readHostJournal=true", "readHostJournal=false"} {
		all := rendered(t, "--set", "openshift.enabled=true,"+more)
		pod := kinds[*appsv1.DaemonSet](all)[0].Spec.Template.Spec
		context := pod.Containers[0].SecurityContext
		got := *kinds[*constraints](all)[0]
		want := constraints{
			TypeMeta: got.TypeMeta, ObjectMeta: got.ObjectMeta,
			AllowPrivilegedContainer: *context.Privileged,
			AllowPrivilegeEscalation: context.AllowPrivilegeEscalation, DefaultAllowPrivilegeEscalation: context.AllowPrivilegeEscalation,
			AllowHostDirVolumePlugin: true, AllowHostIPC: pod.HostIPC, AllowHostNetwork: pod.HostNetwork, AllowHostPID: pod.HostPID,
			AllowHostPorts: pod.HostNetwork, ReadOnlyRootFilesystem: *context.ReadOnlyRootFilesystem,
			RequiredDropCapabilities: context.Capabilities.Drop, AllowedCapabilities: context.Capabilities.Add,
			Volumes:   []string{"hostPath", "projected", "secret"},
			RunAsUser: strategy{"MustRunAs", context.RunAsUser}, SELinuxContext: strategy{Type: "RunAsAny"},
			SupplementalGroups: strategy{Type: "RunAsAny"}, FSGroup: strategy{Type: "RunAsAny"},
			SeccompProfiles: []string{"runtime/default"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the constraints are\n%+v, and the pods need\n%+v", more, got, want)
		}
		i := slices.IndexFunc(kinds[*rbacv1.Role](all), func(r *rbacv1.Role) bool { return r.Name == "orphan-reaper-scc" })
		rules := []rbacv1.PolicyRule{{
			APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"},
			ResourceNames: []string{got.Name}, Verbs: []string{"use"},
		}}
		if role := kinds[*rbacv1.Role](all)[i]; role.Namespace != "orphan-reaper" || !reflect.DeepEqual(role.Rules, rules) {
			t.Errorf("%+v", role)
		}
	}
}
