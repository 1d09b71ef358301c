/** Requests for an image that arrive while it is pulled for another pod. */
import { containerEvents } from '../../model/reasons/reasons.ts';
import {
  addRequest,
  joinsPull,
  mayBeServed,
  recordEvent,
  reportPresent,
  imageSetup as s,
  servesBeside,
} from './image-setup.ts';
import { admittedBeside } from './verification.ts';

/** During a pull, a pod that needs none is answered at once; one that joins it is told that the image is pulled. */
export const addRequestBeside = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'image.asked') return;
  const { request } = event;
  const { present, verification, place, record } = context;
  const isFree = servesBeside(context) && mayBeServed(request) && admittedBeside(verification, place.image, record);
  if (present !== null && isFree) return reportPresent(enqueue, request, present);
  enqueue(addRequest);
  if (servesBeside(context) && joinsPull(context, request))
    recordEvent(enqueue, request, containerEvents.pulling(request.image));
});
