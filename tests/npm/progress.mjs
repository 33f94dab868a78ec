// What a transport hears of progress, as it arrives: a client of the official SDK lets go of who
// listens before it has handed on what arrived together with the answer.
export function progressOf(way) {
  const heard = [];
  way.onmessage = ({ method, params }) => {
    if (method === "notifications/progress") heard.push(params.message);
  };
  return heard;
}
