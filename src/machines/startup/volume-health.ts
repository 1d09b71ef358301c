/** Whether, and how often, CSI drivers are asked how the volumes of pods are. Pure. */
import type { CSIVolumesInput } from '../charts/csi/csi-volumes-setup.ts';
import { decideFeatures, isEnabled, type KubeletConfiguration, millisecondsOf } from '../configuration/index.ts';

type Configuration = Pick<KubeletConfiguration, 'featureGates' | 'volumeStatsAggPeriod'>;

/** As often as they are asked how full volumes are. */
export function volumeHealthInput(configuration: Configuration): Pick<CSIVolumesInput, 'healthPeriodMs'> {
  const periodMs = millisecondsOf(configuration.volumeStatsAggPeriod);
  const isOn = isEnabled(decideFeatures(configuration.featureGates).changed, 'CSIVolumeHealth');
  return isOn && periodMs > 0 ? { healthPeriodMs: periodMs } : {};
}
