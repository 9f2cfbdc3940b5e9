import { describeSecondGateways } from './second-gateway.ts';

describeSecondGateways('google-genai');
