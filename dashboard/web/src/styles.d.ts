// Style sheets are imported by the bundler.
declare module "*.css";
